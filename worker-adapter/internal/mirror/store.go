package mirror

import (
	"iter"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

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

// block is one of the worker's hashes with at least one copy. It has no pointers: the collector passes the slab by.
type block struct {
	hash uint64
	// parent is valid with hasParent; without it the block starts a sequence.
	parent uint64
	// tail is the block's last unit, which continues the chain; many is where all lie when there are more than one,
	// count how many there are.
	tail        [1]uint64
	many, count int32
	// at is the block's own place in the slab.
	at int32
	// refs counts the copies in group slot 0.
	refs  uint32
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
	index blockTable
	slab  []block
	// more counts, by place in the slab, the copies in the group slots after the first; hybrid models only.
	more   [][]uint32
	free   []int32
	pool   unitPool
	warmed int32
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
	return &store{oldest: none, newest: none, limit: limit}
}

// find is the block of a hash, or nil. The pointer is valid until the next put.
func (s *store) find(hash uint64) *block {
	if i := s.index.find(s.slab, hash); i != none {
		return &s.slab[i]
	}
	return nil
}

// warm brings the blocks of hashes near: what is read of one does not wait for what is read of another.
func (s *store) warm(hashes []uint64) {
	s.index.warm(hashes)
	sum := int32(0)
	for _, h := range hashes {
		if i := s.index.find(s.slab, h); i != none {
			sum += s.slab[i].at
		}
	}
	s.warmed = sum
}

// put finds or makes a block and makes it the newest.
func (s *store) put(hash uint64) *block {
	i := s.index.find(s.slab, hash)
	if i != none {
		s.unlink(i)
	} else {
		if n := len(s.free); n > 0 {
			i = s.free[n-1]
			s.free = s.free[:n-1]
		} else {
			i = int32(len(s.slab))
			s.slab = append(s.slab, block{})
		}
		s.slab[i] = block{hash: hash, at: i}
		s.index.insert(hash, i)
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
	s.copies -= s.total(b)
	if s.hybrid() {
		s.disown(b)
	}
	s.unlearn(b)
	s.unlink(b.at)
	s.index.remove(b.hash, b.at)
	s.free = append(s.free, b.at)
	if int(b.at) < len(s.more) {
		s.more[b.at] = nil
	}
	*b = block{}
}

// claim makes the unit set say c of a block. What has no known content cannot be claimed.
func (s *store) claim(b *block, c claim) {
	if b.content != known {
		c = claim{}
	}
	if c.held != b.told.held {
		s.change(s.unitsOf(b), c.held)
	}
	if c.ends != b.told.ends {
		mark := [1]uint64{kvblock.Boundary(b.tail[0])}
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
	for b := range s.live() {
		if b.space == ns {
			s.claim(b, claim{})
			s.unlearn(b)
			b.content = opaque
		}
	}
}

// live walks over all blocks, in no order.
func (s *store) live() iter.Seq[*block] {
	return func(yield func(*block) bool) {
		for i := range s.slab {
			if b := &s.slab[i]; s.total(b) > 0 && !yield(b) {
				return
			}
		}
	}
}

// total is the number of copies in all groups.
func (s *store) total(b *block) int {
	n := int(b.refs)
	if int(b.at) < len(s.more) {
		for _, r := range s.more[b.at] {
			n += int(r)
		}
	}
	return n
}

// ref is the counter of a group slot.
func (s *store) ref(b *block, slot int) *uint32 {
	if slot == 0 {
		return &b.refs
	}
	for len(s.more) < len(s.slab) {
		s.more = append(s.more, nil)
	}
	for len(s.more[b.at]) < slot {
		s.more[b.at] = append(s.more[b.at], 0)
	}
	return &s.more[b.at][slot-1]
}

// copiesIn is the number of copies in a group slot.
func (s *store) copiesIn(b *block, slot int) uint32 {
	if slot == 0 {
		return b.refs
	}
	if int(b.at) >= len(s.more) || slot > len(s.more[b.at]) {
		return 0
	}
	return s.more[b.at][slot-1]
}
