//go:build !linux

package index

// adviseHuge does nothing where huge pages cannot be asked for.
func adviseHuge[T slot | uint64]([]T) {}
