package index

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// hugePageBytes is the size of a transparent huge page on amd64 and of the usual one on arm64.
	hugePageBytes = 2 << 20
	// adviseFrom is the size from which a table is worth the system call: 128 KiB, 32 small pages.
	adviseFrom = 128 << 10
)

// adviseHuge asks for huge pages under a table: a walk touches a random page per unit, and with small pages most of these
// touches also miss the TLB. The advice covers the huge pages that the table lies in; these are within one arena of Go's
// heap, whose arenas are aligned to 64 MiB, so neighbours on them share the advice and nothing else. A refusal costs
// speed only.
func adviseHuge[T slot | uint64](part []T) {
	size := uintptr(len(part)) * unsafe.Sizeof(part[0])
	if size < adviseFrom {
		return
	}
	table := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
	first := table / hugePageBytes * hugePageBytes
	whole := (table + size - first + hugePageBytes - 1) / hugePageBytes * hugePageBytes
	// By number, because the range begins before the table and a pointer must not.
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, first, whole, unix.MADV_HUGEPAGE)
	runtime.KeepAlive(part)
}
