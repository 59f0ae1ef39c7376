package expect

import "testing"

// BenchmarkFull is what a request costs at a target whose expectations are as many as there may be: one that begins like
// none of them comes, is answered, and its events are awaited.
func BenchmarkFull(b *testing.B) {
	var s Set
	for i := range uint64(MaxEntries) {
		s.Insert(Expectation{Owner: i, Units: chain(i, 20), Expires: at(9)})
	}
	rest := chain(1<<20, 20)
	b.ReportAllocs()
	owner := uint64(1 << 20)
	for b.Loop() {
		owner++
		rest[0]++
		if s.Extend(rest, at(0)) != 0 {
			b.Fatal("nobody expects this")
		}
		s.Insert(Expectation{Owner: owner, Units: rest, Expires: at(9)})
		s.Release(owner, true, at(1))
	}
}

// BenchmarkConfirm is a delta that confirms nothing of a full set, beside many others' units.
func BenchmarkConfirm(b *testing.B) {
	var s Set
	for i := range uint64(MaxEntries) {
		s.Insert(Expectation{Owner: i, Units: chain(i, 600), Expires: at(9)})
	}
	held := map[uint64]bool{}
	for i := range uint64(1 << 20) {
		held[i*2654435761] = false
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Confirm(func(unit uint64) bool { return held[unit] })
	}
}
