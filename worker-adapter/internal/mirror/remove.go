package mirror

import "github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"

// removed takes a BlockRemoved in. What the mirror does not have cannot be removed: that is counted and harmless.
func (m *Mirror) removed(ev *kvevents.Event) {
	s := m.tiers[tierOf(ev.Medium, ev.Remote)]
	slot, ok := s.knownSlot(ev.Group)
	s.warm(ev.Hashes)
	for i, h := range ev.Hashes {
		b := s.find(h)
		if !ok || b == nil || s.copiesIn(b, slot) == 0 {
			m.stats.UnknownRemovals++
			continue
		}
		s.take(b, slot, m.left(ev, i, s.copiesIn(b, slot)))
	}
}

// left is how many of n copies remain after removal i of an event.
func (m *Mirror) left(ev *kvevents.Event, i int, n uint32) uint32 {
	if i < len(ev.Remaining) {
		return min(ev.Remaining[i], n)
	}
	if m.cfg.Copies == CopiesLast {
		return 0
	}
	return n - 1
}

// take lowers a block's copies in a group to left and forgets the block with its last copy.
func (s *store) take(b *block, slot int, left uint32) {
	n := s.ref(b, slot)
	s.copies -= int(*n - left)
	*n = left
	if s.total(b) == 0 {
		s.drop(b)
		return
	}
	s.refresh(b)
}

// trim drops what cannot be true until the tier is within its limit, and returns how many copies that were. Surplus
// copies go first: replays and vLLM's report mode announce blocks again that were never stored twice. Then the blocks
// that were stored longest ago go, whose removal was most likely missed.
func (s *store) trim() int {
	before := s.copies
	for s.copies > s.limit && len(s.surplus) > 0 {
		b := s.find(s.surplus[0])
		s.surplus = s.surplus[1:]
		for slot := range s.groups {
			if b != nil && s.copiesIn(b, slot) > 1 {
				s.take(b, slot, s.copiesIn(b, slot)-1)
				break
			}
		}
	}
	for s.copies > s.limit && s.oldest != none {
		s.drop(&s.slab[s.oldest])
	}
	s.boundSurplus()
	return before - s.copies
}

// boundSurplus forgets the oldest half of the surplus list when it outgrows the tier: its blocks have likely gone.
func (s *store) boundSurplus() {
	if len(s.surplus) > s.index.used+1024 {
		s.surplus = append([]uint64(nil), s.surplus[len(s.surplus)/2:]...)
	}
}
