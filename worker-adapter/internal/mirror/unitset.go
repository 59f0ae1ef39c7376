package mirror

import (
	"slices"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

// unitSet counts, per unit, the countable blocks that have it, and remembers which units the current step touched. It
// is open addressing over the entries themselves: 16 bytes at most seven tenths full.
type unitSet struct {
	places []unitEntry
	used   int
	// changes of the current step wait for its end: all their lines of memory are then asked for at once.
	changes []change
	touched []uint64
	warmed  uint32
	held    int
	digest  kvblock.Digest
}

// change is one block more or less for a unit.
type change struct {
	unit uint64
	less bool
}

// unitEntry is one unit; the zero entry is an empty place. One with no blocks leaves at the end of the step.
type unitEntry struct {
	unit    uint64
	blocks  uint32
	used    bool
	touched bool
	// was is true for a unit that was held when the step began.
	was bool
}

// home is where the probe of a unit begins.
func (s *unitSet) home(unit uint64) int { return scale(unit*fibonacci, len(s.places)) }

// place is where a unit is, or the empty place where its probe ends.
func (s *unitSet) place(unit uint64) int {
	i := s.home(unit)
	for s.places[i].used && s.places[i].unit != unit {
		i = next(i, len(s.places))
	}
	return i
}

// at finds or makes a unit's entry and marks it as touched. The pointer is valid until the next call.
func (s *unitSet) at(unit uint64) *unitEntry {
	if (s.used+1)*10 > len(s.places)*7 {
		s.grow()
	}
	e := &s.places[s.place(unit)]
	if !e.used {
		*e = unitEntry{unit: unit, used: true}
		s.used++
	}
	if !e.touched {
		e.touched, e.was = true, e.blocks > 0
		s.touched = append(s.touched, unit)
	}
	return e
}

// grow moves all entries to a table half as large again.
func (s *unitSet) grow() {
	old := s.places
	s.places = make([]unitEntry, max(minPlaces, len(old)*3/2+1))
	for _, e := range old {
		if e.used {
			s.places[s.place(e.unit)] = e
		}
	}
}

// add counts one more block for each unit.
func (s *unitSet) add(units []uint64) {
	for _, u := range units {
		s.changes = append(s.changes, change{unit: u})
	}
}

// remove counts one block less for each unit. Each was added before.
func (s *unitSet) remove(units []uint64) {
	for _, u := range units {
		s.changes = append(s.changes, change{unit: u, less: true})
	}
}

// ahead is how many look-ups are begun before the first of them is needed: about as many as memory answers at once.
const ahead = 64

// count carries the step's changes out.
func (s *unitSet) count() {
	for todo := range slices.Chunk(s.changes, ahead) {
		s.warm(todo)
		for _, c := range todo {
			if e := s.at(c.unit); c.less {
				e.blocks--
			} else {
				e.blocks++
			}
		}
	}
	s.changes = s.changes[:0]
}

// warm reads where the probes of units begin, which brings those lines of memory near. The sum keeps the reads.
func (s *unitSet) warm(todo []change) {
	if len(s.places) == 0 {
		return
	}
	sum := uint32(0)
	for _, c := range todo {
		sum += s.places[s.home(c.unit)].blocks
	}
	s.warmed = sum
}

// settle ends the step: units that are held now and were not before are appended to added, the reverse to removed.
func (s *unitSet) settle(added, removed []uint64) (a, r []uint64) {
	s.count()
	for _, u := range s.touched {
		i := s.place(u)
		e := &s.places[i]
		switch now := e.blocks > 0; {
		case now && !e.was:
			added = append(added, u)
			s.digest.Add(u)
			s.held++
		case !now && e.was:
			removed = append(removed, u)
			s.digest.Remove(u)
			s.held--
		}
		e.touched = false
		if e.blocks == 0 {
			s.vacate(i)
		}
	}
	s.touched = s.touched[:0]
	return added, removed
}

// vacate empties place i and moves the rest of its run back, so that no tombstones stay.
func (s *unitSet) vacate(i int) {
	n := len(s.places)
	s.used--
	for j := next(i, n); s.places[j].used; j = next(j, n) {
		if distance(s.home(s.places[j].unit), j, n) >= distance(i, j, n) {
			s.places[i] = s.places[j]
			i = j
		}
	}
	s.places[i] = unitEntry{}
}

// all appends every held unit to dst. Whether a place is held cannot be foreseen, so the copy does not branch on it.
func (s *unitSet) all(dst []uint64) []uint64 {
	n := len(dst)
	dst = slices.Grow(dst, s.held+1)[:n+s.held+1]
	for i := range s.places {
		dst[n] = s.places[i].unit
		n += int(min(s.places[i].blocks, 1))
	}
	return dst[:n]
}
