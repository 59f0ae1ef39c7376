// Package expect keeps what a target is about to hold: the units that requests in flight will make it compute. It stands
// beside the index, which holds only what events have confirmed.
//
// Every request has an entry of its own, so one that fails takes away nothing that another one expects. Units are chained
// hashes: when two prompts share a unit, they share all before it. So an entry needs to be compared at one place only, its
// first unit that is not confirmed, and a match is as long as the common prefix from there, found by halving.
package expect

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MaxEntries bounds the entries of one target; the oldest goes first.
const MaxEntries = 1024

// Set is one target's expectations. The zero value is empty and safe for concurrent use.
type Set struct {
	size atomic.Int32
	mu   sync.Mutex
	// next, owner and entries are of the same length, in order of age. What every scan looks at lies together, eight
	// entries to a cache line.
	next    []uint64 // units[0] of each
	owner   []uint64
	entries []*entry
}

type entry struct {
	units   []uint64
	expires time.Time
	keep    bool
}

// Expectation is what one request will make its target hold.
type Expectation struct {
	Owner   uint64   // unique among live entries
	Units   []uint64 // kept, must not change; the first is the first that the target does not hold
	Expires time.Time
	Keep    bool // no event will confirm it, so it outlives its request
}

// Insert expects units until they are confirmed, released or expired.
func (s *Set) Insert(x Expectation) {
	if len(x.Units) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.entries) == MaxEntries {
		s.removeAt(0)
	}
	s.next, s.owner = append(s.next, x.Units[0]), append(s.owner, x.Owner)
	s.entries = append(s.entries, &entry{units: x.Units, expires: x.Expires, keep: x.Keep})
	s.size.Store(int32(len(s.entries)))
}

// Release ends the owner's request. Failed, its entry goes at once. Done, its entry stays until the events that confirm it
// are here, at most until then: an answer may overtake its events. An entry to be kept lives on to its own expiry.
func (s *Set) Release(owner uint64, done bool, until time.Time) {
	if s.size.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.owner, owner)
	if i < 0 {
		return
	}
	switch e := s.entries[i]; {
	case !done:
		s.removeAt(i)
	case !e.keep && until.Before(e.expires):
		e.expires = until
	}
}

// Extend returns how many leading units of rest are expected at now. rest is a prompt's units after the confirmed hit.
func (s *Set) Extend(rest []uint64, now time.Time) int {
	if s.size.Load() == 0 || len(rest) == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	best := 0
	// The newest is the likeliest to be the longest. One that does not go on after the best so far cannot be longer, and
	// one look at its chain tells.
	for i := len(s.next) - 1; i >= 0 && best < len(rest); i-- {
		if s.next[i] != rest[0] {
			continue
		}
		if e := s.entries[i]; len(e.units) > best && e.units[best] == rest[best] && !now.After(e.expires) {
			best = common(e.units, rest)
		}
	}
	return best
}

// ExtendWhole is Extend where only the end of a request counts, as for a hybrid model's worker: it returns the length of
// the longest expectation that rest has whole, cut to step units. Entries begin where a confirmed hit ends, so the cut is
// right for a hit of whole steps.
func (s *Set) ExtendWhole(rest []uint64, step int, now time.Time) int {
	if s.size.Load() == 0 || len(rest) == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	best := 0
	for i, next := range s.next {
		if next != rest[0] {
			continue
		}
		e := s.entries[i]
		n := len(e.units) / step * step
		if n > best && n <= len(rest) && !now.After(e.expires) && e.units[n-1] == rest[n-1] {
			best = n
		}
	}
	return best
}

// Confirm takes away what the target holds by now. holds is asked for the first units of entries only, once for entries
// in a row that wait for the same: a delta confirms few of many, and most cost one look-up and no look at their chain.
func (s *Set) Confirm(holds func(unit uint64) bool) {
	if s.size.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, held := uint64(0), false
	for i := len(s.entries) - 1; i >= 0; i-- {
		if next := s.next[i]; next != asked || i == len(s.entries)-1 {
			asked, held = next, holds(next)
		}
		if !held {
			continue
		}
		e := s.entries[i]
		for len(e.units) > 0 && holds(e.units[0]) {
			e.units = e.units[1:]
		}
		if len(e.units) == 0 {
			s.removeAt(i)
			continue
		}
		s.next[i] = e.units[0]
	}
}

// Expire takes away what is past its time and returns how many entries that were.
func (s *Set) Expire(now time.Time) int {
	if s.size.Load() == 0 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.entries)
	for i := before - 1; i >= 0; i-- {
		if now.After(s.entries[i].expires) {
			s.removeAt(i)
		}
	}
	return before - len(s.entries)
}

// Len is the number of entries.
func (s *Set) Len() int { return int(s.size.Load()) }

// removeAt keeps the order of age.
func (s *Set) removeAt(i int) {
	s.next, s.owner = slices.Delete(s.next, i, i+1), slices.Delete(s.owner, i, i+1)
	s.entries = slices.Delete(s.entries, i, i+1)
	s.size.Store(int32(len(s.entries)))
}

// common is the length of the common prefix of two chains that share their first unit.
func common(a, b []uint64) int {
	lo, hi := 1, min(len(a), len(b))
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if a[mid-1] == b[mid-1] {
			lo = mid
			continue
		}
		hi = mid - 1
	}
	return lo
}
