package bench

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// cpuTime is the CPU time that a process and all its threads have used, user and system, by the kernel's own clock of
// that process: every arm is read the same way and in nanoseconds.
func cpuTime(pid int) (time.Duration, error) {
	const schedClock = 2 // of a process, in the low bits of a clock's number
	clock := uintptr(^pid<<3 | schedClock)
	var ts syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, errno)
	}
	return time.Duration(ts.Nano()), nil
}

// residentKB is a process's resident memory.
func residentKB(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kb int
			_, err := fmt.Sscan(rest, &kb)
			return kb, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS", pid)
}
