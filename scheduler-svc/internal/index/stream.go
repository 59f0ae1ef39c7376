package index

import (
	"sync/atomic"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

// Stream is one rank of one worker as a holder. One goroutine writes it at a time; reading its counts is always safe.
type Stream struct {
	index  *Index
	number int
	now    set3
}

// set3 is a stream's generations by tier, nil where it never held anything.
type set3 [tierCount]atomic.Pointer[generation]

// Open adds a stream without units, or returns nil when MaxStreams are open.
func (x *Index) Open() *Stream {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := &Stream{index: x}
	for s.number = 0; s.number < len(x.streams) && x.streams[s.number] != nil; s.number++ {
	}
	if s.number == MaxStreams {
		return nil
	}
	if s.number == len(x.streams) {
		x.streams = append(x.streams, nil)
		x.opened.Store(int32(len(x.streams)))
	}
	x.streams[s.number] = s
	return s
}

// Number is the stream's place in a Walk. It is given to another stream after Close.
func (s *Stream) Number() int { return s.number }

func (s *Stream) appender() *appender { return &s.index.appenders[s.number%appenderCount] }

// Close drops the stream and gives its number back.
func (s *Stream) Close() {
	s.Drop()
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	if s.index.streams[s.number] == s {
		s.index.streams[s.number] = nil
	}
}

// Drop forgets all units of the stream, at a cost that does not depend on their number.
func (s *Stream) Drop() {
	for t := range s.now {
		s.Clear(Tier(t))
	}
}

// Clear forgets the units of one tier.
func (s *Stream) Clear(tier Tier) {
	s.index.kill(s.now[tier].Swap(nil))
}

// Add records units as held and returns how many were not held before.
func (s *Stream) Add(tier Tier, units []uint64) int {
	g := s.now[tier].Load()
	if g == nil && len(units) > 0 {
		g = s.index.newGeneration(liveMeta(s.number, tier))
		s.now[tier].Store(g)
	}
	return s.index.add(g, s.appender(), units)
}

// Remove records units as no longer held and returns how many were held before.
func (s *Stream) Remove(tier Tier, units []uint64) int {
	return s.index.remove(s.now[tier].Load(), units)
}

// Holds reports whether the stream holds the unit in any tier.
func (s *Stream) Holds(unit uint64) bool {
	_, w := s.index.shardOf(unit).read(s.index.arena, unit)
	for t := range s.now {
		if g := s.now[t].Load(); g != nil && s.index.has(w, g.id, unit) {
			return true
		}
	}
	return false
}

// Units is the number of units held, a unit in two tiers counted twice.
func (s *Stream) Units() int { return s.now.units() }

// Digest is the digest of the units held, comparable with that of the worker's mirror.
func (s *Stream) Digest() uint64 { return s.now.digest() }

// Lost is the number of units that the index's bounds took from the stream since it was last loaded or dropped. While it
// is not 0, Units and Digest do not describe the worker.
func (s *Stream) Lost() uint64 { return s.now.lost() }

func (s *set3) units() int {
	n := int64(0)
	for t := range s {
		if g := s[t].Load(); g != nil {
			n += g.units.Load()
		}
	}
	return int(n)
}

func (s *set3) digest() uint64 {
	d := uint64(0)
	for t := range s {
		if g := s[t].Load(); g != nil {
			d += g.digest.Load()
		}
	}
	return d
}

func (s *set3) lost() uint64 {
	n := uint64(0)
	for t := range s {
		if g := s[t].Load(); g != nil {
			n += g.lost.Load()
		}
	}
	return n
}

// Load is a snapshot that is being taken in. Walks see the stream as it was until Commit.
type Load struct {
	stream *Stream
	next   set3
}

// Replace begins a load. Another goroutine than the stream's writer may fill it; Commit and Abort are the writer's.
func (s *Stream) Replace() *Load { return &Load{stream: s} }

// Add takes units of a tier into the load.
func (l *Load) Add(tier Tier, units []uint64) int {
	g := l.next[tier].Load()
	if g == nil && len(units) > 0 {
		g = l.stream.index.newGeneration(liveMeta(l.stream.number, tier) | metaHidden)
		l.next[tier].Store(g)
	}
	return l.stream.index.add(g, l.stream.appender(), units)
}

// Units is the number of units taken in.
func (l *Load) Units() int { return l.next.units() }

// Digest is the digest of the units taken in.
func (l *Load) Digest() uint64 { return l.next.digest() }

// Lost is the number of units that found no room.
func (l *Load) Lost() uint64 { return l.next.lost() }

// Commit makes the load the stream's contents.
func (l *Load) Commit() {
	x, now := l.stream.index, &l.stream.now
	for t := range l.next {
		g := l.next[t].Swap(nil)
		if g != nil {
			x.meta[g.id].Store(liveMeta(l.stream.number, Tier(t)))
		}
		x.kill(now[t].Swap(g))
	}
}

// Abort forgets the load. It does nothing after Commit.
func (l *Load) Abort() {
	for t := range l.next {
		l.stream.index.kill(l.next[t].Swap(nil))
	}
}

// digestBatch collects what a batch changed, so that shared counters are touched once.
type digestBatch struct {
	kvblock.Digest
	units int64
}

func (b *digestBatch) count(unit uint64) {
	b.Add(unit)
	b.units++
}
