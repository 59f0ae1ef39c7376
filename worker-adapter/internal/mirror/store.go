package mirror

import "github.com/kvmesh/kvmesh/services/kit/kvblock"

// content says what is known of a block's content.
type content uint8

const (
	// orphaned blocks have a parent that was never seen.
	orphaned content = iota
	// opaque blocks have content that cannot be expressed in units.
	opaque
	// known blocks have units.
	known
)

// none is the index of no block.
const none = -1

// block is one of the worker's hashes with at least one copy.
type block struct {
	hash uint64
	// parent is valid with hasParent; without it the block starts a sequence.
	parent uint64
	// units are the block's own units, in order; the last one continues the chain.
	units []uint64
	// refs counts the copies in group slot 0, more those in the slots after it.
	refs  uint32
	more  []uint32
	space int32
	// older and newer link the blocks in the order in which they were last stored.
	older, newer int32
	content      content
	hasParent    bool
	// told is what the unit set says of the block.
	told claim
}

// claim is what a block is in the unit set.
type claim struct {
	// held blocks have their units there.
	held bool
	// ends is true for a boundary of a hybrid model at which hits can end: its mark is there too.
	ends bool
}

// store is one tier: the worker's blocks by hash, their order of age, and the units they make.
type store struct {
	index  map[uint64]int32
	slab   []block
	free   []int32
	units  unitSet
	groups []group
	// oldest and newest are the ends of the age list.
	oldest, newest int32
	// copies is the sum of all references; limit is the most that can be true.
	copies, limit int
	// surplus names blocks that once had more than one copy in a group, oldest first.
	surplus []uint64
	// ruled is true for a hybrid model whose hits can be told.
	ruled bool
	// dirty holds blocks whose groups changed in this step; hybrid models only.
	dirty map[uint64]struct{}
	// children maps a block to those that name it as parent; hybrid models only.
	children map[uint64][]uint64
}

// newStore is an empty tier.
func newStore(limit int) *store {
	return &store{
		index: map[uint64]int32{}, units: unitSet{index: map[uint64]int32{}}, oldest: none, newest: none, limit: limit,
	}
}

// find is the block of a hash, or nil. The pointer is valid until the next put.
func (s *store) find(hash uint64) *block {
	if i, ok := s.index[hash]; ok {
		return &s.slab[i]
	}
	return nil
}

// put finds or makes a block and makes it the newest.
func (s *store) put(hash uint64) *block {
	i, ok := s.index[hash]
	if ok {
		s.unlink(i)
	} else {
		if n := len(s.free); n > 0 {
			i = s.free[n-1]
			s.free = s.free[:n-1]
		} else {
			i = int32(len(s.slab))
			s.slab = append(s.slab, block{})
		}
		s.slab[i] = block{hash: hash}
		s.index[hash] = i
	}
	s.link(i)
	return &s.slab[i]
}

// link makes block i the newest.
func (s *store) link(i int32) {
	b := &s.slab[i]
	b.older, b.newer = s.newest, none
	if s.newest == none {
		s.oldest = i
	} else {
		s.slab[s.newest].newer = i
	}
	s.newest = i
}

// unlink takes block i out of the age list.
func (s *store) unlink(i int32) {
	b := &s.slab[i]
	if b.older == none {
		s.oldest = b.newer
	} else {
		s.slab[b.older].newer = b.newer
	}
	if b.newer == none {
		s.newest = b.older
	} else {
		s.slab[b.newer].older = b.older
	}
}

// drop forgets a block with all its copies.
func (s *store) drop(b *block) {
	s.claim(b, claim{})
	s.copies -= b.total()
	if s.hybrid() {
		s.disown(b)
	}
	i := s.index[b.hash]
	s.unlink(i)
	delete(s.index, b.hash)
	s.free = append(s.free, i)
	*b = block{}
}

// claim makes the unit set say c of a block. What has no known content cannot be claimed.
func (s *store) claim(b *block, c claim) {
	if b.content != known {
		c = claim{}
	}
	if c.held != b.told.held {
		s.change(b.units, c.held)
	}
	if c.ends != b.told.ends {
		mark := [1]uint64{kvblock.Boundary(b.last())}
		s.change(mark[:], c.ends)
	}
	b.told = c
}

// change adds units to the unit set or takes them out.
func (s *store) change(units []uint64, in bool) {
	if in {
		s.units.add(units)
		return
	}
	s.units.remove(units)
}

// dropSpace makes the blocks of a namespace opaque.
func (s *store) dropSpace(ns int32) {
	for _, i := range s.index {
		if b := &s.slab[i]; b.space == ns {
			s.claim(b, claim{})
			b.content, b.units = opaque, nil
		}
	}
}

// total is the number of copies in all groups.
func (b *block) total() int {
	n := int(b.refs)
	for _, r := range b.more {
		n += int(r)
	}
	return n
}

// ref is the counter of a group slot.
func (b *block) ref(slot int) *uint32 {
	if slot == 0 {
		return &b.refs
	}
	for len(b.more) < slot {
		b.more = append(b.more, 0)
	}
	return &b.more[slot-1]
}

// copiesIn is the number of copies in a group slot.
func (b *block) copiesIn(slot int) uint32 {
	if slot == 0 {
		return b.refs
	}
	if slot > len(b.more) {
		return 0
	}
	return b.more[slot-1]
}
