package mirror

import (
	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
)

// groupMax bounds the cache groups of a tier; hybrid models of 2026 have up to about ten.
const groupMax = 64

// group is one cache group of a worker: layers that share a block table. Plain models have one.
type group struct {
	id          int
	blockTokens int
	rule
}

// rule is when a group can serve a hit that ends at a boundary, as vLLM 0.32's coordinator of cache groups decides it.
type rule struct {
	// full groups need every block before the boundary; the consumer's walk over the path checks that.
	full bool
	// need is how many blocks in a row, ending at the boundary, a group that is not full must hold: a window's worth
	// for sliding windows, 1 for Mamba, whose block carries the whole state. 0 is a kind whose rule is not known.
	need int
}

// ruleOf is the rule of the group that an event names. A group without a kind (vLLM before 0.23) is not known.
func ruleOf(ev *kvevents.Event) rule {
	switch ev.SpecKind {
	case "full_attention", "mla_attention", "sink_full_attention":
		return rule{full: true, need: 1}
	case "mamba":
		return rule{need: 1}
	case "sliding_window", "sliding_window_mla":
		if ev.WindowTokens > 0 && ev.BlockTokens > 0 {
			return rule{need: window(ev)}
		}
	}
	return rule{}
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
	s.groups = append(s.groups, group{id: ev.Group, rule: ruleOf(ev)})
	if len(s.groups) == 2 {
		s.becomeHybrid()
	}
	if s.hybrid() {
		s.rule()
		for b := range s.live() {
			s.touch(b.hash)
		}
	}
	return len(s.groups) - 1, true
}

// rule finds out whether hits of a hybrid model can be told, and marks the unit set when they can. Without a full group
// there is no path to walk, with a group of an unknown kind no boundary is sure: then nothing is claimed.
func (s *store) rule() {
	full, known := false, true
	for _, g := range s.groups {
		full = full || g.full
		known = known && g.need > 0
	}
	ruled := full && known
	if ruled == s.ruled {
		return
	}
	s.ruled = ruled
	if ruled {
		s.units.add(hybridMark[:])
		return
	}
	s.units.remove(hybridMark[:])
}

// hybridMark is never written.
var hybridMark = [...]uint64{kvblock.HybridMark}

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
	for b := range s.live() {
		s.adopt(b)
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
	s.claim(b, claim{held: b.refs > 0})
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

// judge decides what a block of a hybrid model is: on the path when all full groups hold it, an end of hits when every
// other group can serve one there too.
func (s *store) judge(hash uint64) {
	b := s.find(hash)
	if b == nil {
		return
	}
	c := claim{held: s.ruled, ends: s.ruled}
	for slot := range s.groups {
		if !s.serves(b, slot) {
			c.ends = false
			c.held = c.held && !s.groups[slot].full
		}
	}
	c.ends = c.ends && c.held
	s.claim(b, c)
}

// serves is true when a group holds its need of blocks in a row up to b, or all from the start of the sequence.
func (s *store) serves(b *block, slot int) bool {
	for left := s.groups[slot].need; ; left-- {
		if b == nil || s.copiesIn(b, slot) == 0 {
			return false
		}
		if left == 1 || !b.hasParent && b.content == known {
			return true
		}
		b = s.find(b.parent)
	}
}
