package index

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePageBytes is the size of a transparent huge page on amd64 and of the usual one on arm64.
const hugePageBytes = 2 << 20

// adviseHuge asks for huge pages under a large table: a walk touches a random page per unit, and with small pages most of
// these touches also miss the TLB. A refusal costs speed only.
func adviseHuge(slots []slot) {
	if len(slots)*slotBytes < 2*hugePageBytes {
		return
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(slots)))
	skip := (hugePageBytes - start%hugePageBytes) % hugePageBytes
	whole := (uintptr(len(slots)*slotBytes) - skip) / hugePageBytes * hugePageBytes
	if whole == 0 {
		return
	}
	first := (*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(slots)), skip))
	_ = unix.Madvise(unsafe.Slice(first, whole), unix.MADV_HUGEPAGE)
}
