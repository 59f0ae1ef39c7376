package mirror

import (
	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
)

// stored takes a BlockStored in.
func (m *Mirror) stored(ev *kvevents.Event) {
	t := tierOf(ev.Medium, ev.Remote)
	regular := ev.Regular()
	crowded := m.crowded(ev.LoRA)
	if crowded {
		m.stats.Crowded++
	}
	if crowded || regular && m.resized(t, ev) {
		m.forget()
		m.reset = true
	}
	s := m.tiers[t]
	slot, ok := s.slot(ev)
	if !ok {
		m.stats.Skipped++
		return
	}
	if regular {
		s.groups[slot].blockTokens = ev.BlockTokens
	} else {
		m.stats.Irregular++
	}
	r := m.run(s, ev)
	s.index.warm(ev.Hashes)
	for i, h := range ev.Hashes {
		b := s.put(h)
		s.keep(b, slot)
		if b.content != known {
			m.learn(s, b, link{run: r, i: i})
		}
		r.follow(b)
		s.refresh(b)
	}
	if r.state == orphaned {
		m.orphans.add(ev, r)
	}
	m.stats.OrphansDropped += m.orphans.bound()
}

// resized is true when a group's block size is not what it was: the worker's cache was built anew.
func (m *Mirror) resized(t Tier, ev *kvevents.Event) bool {
	slot, ok := m.tiers[t].knownSlot(ev.Group)
	return ok && m.tiers[t].groups[slot].blockTokens > 0 && m.tiers[t].groups[slot].blockTokens != ev.BlockTokens
}

// keep counts one more copy.
func (s *store) keep(b *block, slot int) {
	n := s.ref(b, slot)
	*n++
	s.copies++
	if *n > 1 {
		s.surplus = append(s.surplus, b.hash)
	}
}

// run walks the blocks of one stored event in order.
type run struct {
	ev    *kvevents.Event
	space int32
	cut   cut
	// prev is the chain's value before the next block and state what is known of it.
	prev  uint64
	state content
}

// link is block i of a run.
type link struct {
	run *run
	i   int
}

// follow moves the chain past b, whether b was known before or has just been learnt. A run without usable ids stays
// opaque.
func (r *run) follow(b *block) {
	if !r.ev.Regular() {
		return
	}
	r.state = b.content
	if b.content == known {
		r.prev = b.tail[0]
	}
}

// run begins the walk: it finds out what is known of the parent.
func (m *Mirror) run(s *store, ev *kvevents.Event) *run {
	r := &run{ev: ev, space: m.namespace(ev.LoRA)}
	r.cut = cutOf(m.spaces[r.space].root, ev.BlockTokens)
	switch {
	case !ev.Regular():
		r.state = opaque
	case !ev.HasParent:
		r.prev, r.state = r.cut.root, known
	default:
		r.prev, r.state = m.chain(s, ev.Parent)
	}
	return r
}

// chain is the value after a block, looked for in the event's own tier first: hashes name content, wherever it lies.
func (m *Mirror) chain(s *store, hash uint64) (uint64, content) {
	if b := s.find(hash); b != nil && b.content != orphaned {
		return b.tail[0], b.content
	}
	for _, other := range m.tiers {
		if b := other.find(hash); b != nil && b.content == known {
			return b.tail[0], known
		}
	}
	return 0, orphaned
}

// learn gives a block its content as far as the event tells it.
func (m *Mirror) learn(s *store, b *block, l link) {
	r := l.run
	b.space, b.content = r.space, r.state
	if !r.ev.Regular() {
		m.borrow(s, b)
		return
	}
	m.place(s, b, l)
	if r.state != known {
		return
	}
	units := m.unitsOf(r, l.i)
	if units == nil {
		m.stats.Unplaced++
		b.content = opaque
		return
	}
	s.learn(b, units)
	m.adoptOrphans(s, b)
}

// place sets a block's parent: the block before it in the event, or the event's own parent.
func (m *Mirror) place(s *store, b *block, l link) {
	parent, has := l.run.ev.Parent, l.run.ev.HasParent
	if l.i > 0 {
		parent, has = l.run.ev.Hashes[l.i-1], true
	}
	if s.hybrid() && !b.hasParent && has {
		b.parent, b.hasParent = parent, true
		s.adopt(b)
		return
	}
	b.parent, b.hasParent = parent, has
}

// borrow fills an opaque block from another tier that knows the same hash: connectors announce an offloaded block
// without its ids (vLLM without self_describing_kv_events).
func (m *Mirror) borrow(s *store, b *block) {
	for _, tier := range m.tiers {
		if other := tier.find(b.hash); other != nil && other.content == known {
			s.learn(b, tier.unitsOf(other))
			b.space = other.space
			return
		}
	}
}

// cut says how a worker block becomes units.
type cut struct {
	root uint64
	// tokens is the size of one unit: 16, or the worker's block size where that is no multiple of 16.
	tokens int
	// units is the number of units in a block.
	units int
}

// cutOf is the cut of blocks of this size.
func cutOf(root uint64, blockTokens int) cut {
	if blockTokens < 1 {
		return cut{root: root}
	}
	if blockTokens%kvblock.UnitTokens == 0 {
		return cut{root: root, tokens: kvblock.UnitTokens, units: blockTokens / kvblock.UnitTokens}
	}
	return cut{root: kvblock.BlockRoot(root, blockTokens), tokens: blockTokens, units: 1}
}

// unitsOf hashes block i of a run, valid until the next call, or returns nil when its extras cannot be placed: a multimodal item says where it
// begins but not where it ends, so only a block that is one unit can carry it.
func (m *Mirror) unitsOf(r *run, i int) []uint64 {
	x, ok := r.ev.Extra(i)
	if !ok || len(x.Items) > 0 && r.cut.units > 1 {
		return nil
	}
	return m.hash(r, i, x)
}

// hash makes block i's units in memory that the next call uses again.
func (m *Mirror) hash(r *run, i int, x kvblock.Extra) []uint64 {
	var extra []byte
	if x.Salt != "" || len(x.Items) > 0 {
		extra = kvblock.AppendExtra(nil, x)
	}
	ids := r.ev.TokenIDs[i*r.ev.BlockTokens : (i+1)*r.ev.BlockTokens]
	prev := r.prev
	m.hashed = m.hashed[:0]
	for u := range r.cut.units {
		prev = kvblock.Next(r.cut.root, prev, ids[u*r.cut.tokens:(u+1)*r.cut.tokens], extra)
		m.hashed = append(m.hashed, prev)
		extra = nil
	}
	return m.hashed
}
