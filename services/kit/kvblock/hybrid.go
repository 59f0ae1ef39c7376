package kvblock

// HybridMark is held, as if it were a unit, by every stream of a hybrid model's worker: there a hit ends at a boundary
// that all cache groups can serve, and the units held are only the path to it.
const HybridMark uint64 = 0x9b1c_5e0f_7a36_d28d

// boundaryMask makes boundaries of units. Both are pseudo-random, so that one is taken for the other once in 2^64.
const boundaryMask uint64 = 0xc2b2_ae3d_27d4_eb4f

// Boundary is what a hybrid model's worker holds, as if it were a unit, where a hit can end after the unit.
func Boundary(unit uint64) uint64 { return unit ^ boundaryMask }
