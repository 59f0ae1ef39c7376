package mirror

import "github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"

// groupMax bounds the cache groups of a tier; hybrid models of 2026 have up to about ten.
const groupMax = 64

// group is one cache group of a worker: layers that share a block table. Plain models have one.
type group struct {
	id          int
	blockTokens int
	// need is how many blocks in a row, ending at a boundary, the group must hold for a hit there: 1 where a block
	// stands for itself (full attention) or carries the whole state (Mamba), a window's worth for sliding windows.
	need int
}

// slot finds or makes the group of an event. ok is false beyond the bound.
func (s *store) slot(ev *kvevents.Event) (slot int, ok bool) {
	for i := range s.groups {
		if s.groups[i].id == ev.Group {
			return i, true
		}
	}
	if len(s.groups) == groupMax {
		return 0, false
	}
	s.groups = append(s.groups, group{id: ev.Group, need: window(ev)})
	if len(s.groups) == 2 {
		s.becomeHybrid()
	}
	if s.hybrid() {
		for hash := range s.index {
			s.touch(hash)
		}
	}
	return len(s.groups) - 1, true
}

// knownSlot is the slot of a group id, or ok false.
func (s *store) knownSlot(id int) (slot int, ok bool) {
	for i := range s.groups {
		if s.groups[i].id == id {
			return i, true
		}
	}
	return 0, false
}

// window is how many blocks in a row a sliding group needs: those that the window reaches back from the next token.
func window(ev *kvevents.Event) int {
	if ev.WindowTokens < 2 || ev.BlockTokens < 1 {
		return 1
	}
	return (ev.WindowTokens - 1 + ev.BlockTokens - 1) / ev.BlockTokens
}

// hybrid is true when a hit needs more than one group.
func (s *store) hybrid() bool { return len(s.groups) > 1 }

// becomeHybrid builds what only hybrid models need.
func (s *store) becomeHybrid() {
	s.dirty = map[uint64]struct{}{}
	s.children = map[uint64][]uint64{}
	for i := range s.slab {
		if b := &s.slab[i]; b.total() > 0 {
			s.adopt(b)
		}
	}
}

// adopt notes a block as its parent's child.
func (s *store) adopt(b *block) {
	if b.hasParent {
		s.children[b.parent] = append(s.children[b.parent], b.hash)
	}
}

// disown undoes adopt and lets the block's own children be judged again.
func (s *store) disown(b *block) {
	s.touch(b.hash)
	if !b.hasParent {
		return
	}
	kin := s.children[b.parent]
	for i, h := range kin {
		if h == b.hash {
			kin[i] = kin[len(kin)-1]
			kin = kin[:len(kin)-1]
			break
		}
	}
	if len(kin) == 0 {
		delete(s.children, b.parent)
		return
	}
	s.children[b.parent] = kin
}

// touch marks a block for judgement at the end of the step.
func (s *store) touch(hash uint64) { s.dirty[hash] = struct{}{} }

// refresh judges a block whose copies or content changed: at once for plain models, at the end of the step for hybrids.
func (s *store) refresh(b *block) {
	if s.hybrid() {
		s.touch(b.hash)
		return
	}
	if b.refs > 0 {
		s.count(b)
		return
	}
	s.uncount(b)
}

// settleGroups judges the blocks whose groups changed, and their descendants as far as a window reaches.
func (s *store) settleGroups() {
	if len(s.dirty) == 0 {
		return
	}
	reach := 1
	for _, g := range s.groups {
		reach = max(reach, g.need)
	}
	level := make([]uint64, 0, len(s.dirty))
	for h := range s.dirty {
		level = append(level, h)
	}
	seen := s.dirty
	for depth := 1; len(level) > 0; depth++ {
		var next []uint64
		for _, h := range level {
			s.judge(h)
			if depth >= reach {
				continue
			}
			for _, c := range s.children[h] {
				if _, done := seen[c]; !done {
					seen[c] = struct{}{}
					next = append(next, c)
				}
			}
		}
		level = next
	}
	clear(s.dirty)
}

// judge counts a block exactly when every group can serve a hit that ends with it.
func (s *store) judge(hash uint64) {
	b := s.find(hash)
	if b == nil {
		return
	}
	for slot := range s.groups {
		if !s.serves(b, slot) {
			s.uncount(b)
			return
		}
	}
	s.count(b)
}

// serves is true when a group holds its need of blocks in a row up to b, or all from the start of the sequence.
func (s *store) serves(b *block, slot int) bool {
	for left := s.groups[slot].need; ; left-- {
		if b == nil || b.copiesIn(slot) == 0 {
			return false
		}
		if left == 1 || !b.hasParent && b.content == known {
			return true
		}
		b = s.find(b.parent)
	}
}
