package mirror

import (
	"slices"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

// unitSet counts, per unit, the countable blocks that have it, and remembers which units the current step touched.
type unitSet struct {
	index   map[uint64]int32
	slab    []unitEntry
	free    []int32
	touched []int32
	held    int
	digest  kvblock.Digest
}

// unitEntry is one unit. An entry with no blocks and not touched is free.
type unitEntry struct {
	unit    uint64
	blocks  uint32
	was     bool
	touched bool
}

// at finds or makes a unit's entry and marks it as touched.
func (s *unitSet) at(unit uint64) *unitEntry {
	i, ok := s.index[unit]
	if !ok {
		if n := len(s.free); n > 0 {
			i = s.free[n-1]
			s.free = s.free[:n-1]
		} else {
			i = int32(len(s.slab))
			s.slab = append(s.slab, unitEntry{})
		}
		s.slab[i] = unitEntry{unit: unit}
		s.index[unit] = i
	}
	e := &s.slab[i]
	if !e.touched {
		e.touched, e.was = true, e.blocks > 0
		s.touched = append(s.touched, i)
	}
	return e
}

// add counts one more block for each unit.
func (s *unitSet) add(units []uint64) {
	for _, u := range units {
		s.at(u).blocks++
	}
}

// remove counts one block less for each unit. Each was added before.
func (s *unitSet) remove(units []uint64) {
	for _, u := range units {
		s.at(u).blocks--
	}
}

// settle ends the step: units that are held now and were not before are appended to added, the reverse to removed.
func (s *unitSet) settle(added, removed []uint64) (a, r []uint64) {
	for _, i := range s.touched {
		e := &s.slab[i]
		switch now := e.blocks > 0; {
		case now && !e.was:
			added = append(added, e.unit)
			s.digest.Add(e.unit)
			s.held++
		case !now && e.was:
			removed = append(removed, e.unit)
			s.digest.Remove(e.unit)
			s.held--
		}
		e.touched = false
		if e.blocks == 0 {
			delete(s.index, e.unit)
			s.free = append(s.free, i)
		}
	}
	s.touched = s.touched[:0]
	return added, removed
}

// all appends every held unit to dst.
func (s *unitSet) all(dst []uint64) []uint64 {
	dst = slices.Grow(dst, s.held)
	for i := range s.slab {
		if s.slab[i].blocks > 0 {
			dst = append(dst, s.slab[i].unit)
		}
	}
	return dst
}
