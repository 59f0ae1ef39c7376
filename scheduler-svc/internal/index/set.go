package index

import (
	"slices"
	"sync"
	"sync/atomic"
)

const (
	chunkBits = 12
	chunkSize = 1 << chunkBits
	dirSize   = 1 << 12 // 16M sets, more than a table of distinct sets could hold in its bytes
	setBytes  = 160     // header, map entry and pointers of one set, beside two bytes per id
)

// holderSet is an immutable set of five or more holders, shared by all units that have exactly these.
type holderSet struct {
	ids  []uint16
	self word // readers compare: a place may have been given to another set since they read it
	hash uint64
	refs int // units that refer to it; guarded by the pool
	next uint32
}

// setPool interns holder sets. Writers lock it; readers go through the chunks without a lock.
type setPool struct {
	mu         sync.Mutex
	byHash     map[uint64]uint32 // first place with this hash, +1; others are chained by next
	free       []uint32
	used       uint32
	generation uint32
	bytes      int64
	maxBytes   int64
	scratch    []uint16
	last       transition
	dir        [dirSize]atomic.Pointer[[chunkSize]atomic.Pointer[holderSet]]
}

// transition is the last exchange of a set. Neighbouring units mostly have the same holders, so a batch makes the same
// exchange for most of its units; words never come back with another meaning, so it can be repeated without a comparison.
type transition struct {
	from, to word
	id       uint16
	add      bool
}

func newSetPool(maxBytes int64) *setPool {
	return &setPool{byHash: map[uint64]uint32{}, maxBytes: maxBytes}
}

// load returns the set of a word, or nil when the word is stale: its reader has to look the unit up again.
func (p *setPool) load(w word) *holderSet {
	s := p.slot(w.place())
	if s == nil || s.self != w {
		return nil
	}
	return s
}

func (p *setPool) slot(place uint32) *holderSet {
	chunk := p.dir[place>>chunkBits].Load()
	if chunk == nil {
		return nil
	}
	return chunk[place&(chunkSize-1)].Load()
}

// with returns the word for w's holders and id, and whether it could be had: past the pool's bytes no new set is made.
// The caller's reference to w is exchanged for one to the result.
func (p *setPool) with(w word, id uint16) (word, bool) {
	if !w.isSet() && w.count() < inlineMax {
		var have, want [inlineMax]uint16
		return inlineWord(insertID(want[:0], w.appendInline(have[:0]), id)), true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if out, ok := p.repeat(w, id, true); ok {
		return out, true
	}
	p.scratch = insertID(p.scratch[:0], p.members(w), id)
	out, ok := p.acquire(p.scratch)
	if ok {
		p.release(w)
		p.last = transition{from: w, to: out, id: id, add: true}
	}
	return out, ok
}

// repeat makes the last exchange once more, if it was this one and its result is still in use.
func (p *setPool) repeat(w word, id uint16, add bool) (word, bool) {
	l := p.last
	if l.from != w || l.id != id || l.add != add || l.to == 0 {
		return 0, false
	}
	if l.to.isSet() {
		s := p.load(l.to)
		if s == nil {
			return 0, false
		}
		s.refs++
	}
	p.release(w)
	return l.to, true
}

// without is the reverse of with. It fails only when the smaller set is new and the pool is full; the caller then gives
// the unit up.
func (p *setPool) without(w word, id uint16) (word, bool) {
	if !w.isSet() {
		var have, want [inlineMax]uint16
		return inlineWord(removeID(want[:0], w.appendInline(have[:0]), w.indexInline(id))), true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if out, ok := p.repeat(w, id, false); ok {
		return out, true
	}
	members := p.members(w)
	i, _ := slices.BinarySearch(members, id)
	p.scratch = removeID(p.scratch[:0], members, i)
	out, ok := p.exchange(w, p.scratch)
	if ok {
		p.last = transition{from: w, to: out, id: id}
	}
	return out, ok
}

// keep returns the word for those of w's holders that pass.
func (p *setPool) keep(w word, pass func(uint16) bool) (word, bool) {
	if !w.isSet() {
		var ids [inlineMax]uint16
		n := 0
		for i := range w.count() {
			if id := w.id(i); pass(id) {
				ids[n] = id
				n++
			}
		}
		return inlineWord(ids[:n]), true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scratch = p.scratch[:0]
	for _, id := range p.members(w) {
		if pass(id) {
			p.scratch = append(p.scratch, id)
		}
	}
	return p.exchange(w, p.scratch)
}

// exchange gives w's reference back for one to ids.
func (p *setPool) exchange(w word, ids []uint16) (word, bool) {
	if len(ids) <= inlineMax {
		out := inlineWord(ids)
		p.release(w)
		return out, true
	}
	out, ok := p.acquire(ids)
	if ok {
		p.release(w)
	}
	return out, ok
}

// members returns the holders of w; for inline words in a buffer of its own.
func (p *setPool) members(w word) []uint16 {
	if w.isSet() {
		return p.slot(w.place()).ids
	}
	return w.appendInline(make([]uint16, 0, inlineMax))
}

// drop gives a reference back.
func (p *setPool) drop(w word) {
	if !w.isSet() {
		return
	}
	p.mu.Lock()
	p.release(w)
	p.mu.Unlock()
}

func (p *setPool) acquire(ids []uint16) (word, bool) {
	hash := hashIDs(ids)
	for at := p.byHash[hash]; at != 0; {
		s := p.slot(at - 1)
		if slices.Equal(s.ids, ids) {
			s.refs++
			return s.self, true
		}
		at = s.next
	}
	cost := int64(setBytes + 2*len(ids))
	if p.bytes+cost > p.maxBytes || p.used == dirSize*chunkSize && len(p.free) == 0 {
		return 0, false
	}
	p.bytes += cost
	p.generation++
	place := p.takePlace()
	s := &holderSet{
		ids: slices.Clone(ids), self: setWord(place, p.generation), hash: hash, refs: 1, next: p.byHash[hash],
	}
	p.byHash[hash] = place + 1
	p.dir[place>>chunkBits].Load()[place&(chunkSize-1)].Store(s)
	return s.self, true
}

func (p *setPool) takePlace() uint32 {
	if n := len(p.free); n > 0 {
		place := p.free[n-1]
		p.free = p.free[:n-1]
		return place
	}
	place := p.used
	p.used++
	if p.dir[place>>chunkBits].Load() == nil {
		p.dir[place>>chunkBits].Store(new([chunkSize]atomic.Pointer[holderSet]))
	}
	return place
}

func (p *setPool) release(w word) {
	if !w.isSet() {
		return
	}
	s := p.slot(w.place())
	if s.refs--; s.refs > 0 {
		return
	}
	p.unchain(s)
	p.bytes -= int64(setBytes + 2*len(s.ids))
	p.dir[w.place()>>chunkBits].Load()[w.place()&(chunkSize-1)].Store(nil)
	p.free = append(p.free, w.place())
}

func (p *setPool) unchain(s *holderSet) {
	self := s.self.place() + 1
	at := p.byHash[s.hash]
	if at == self {
		if s.next == 0 {
			delete(p.byHash, s.hash)
			return
		}
		p.byHash[s.hash] = s.next
		return
	}
	for {
		before := p.slot(at - 1)
		if before.next == self {
			before.next = s.next
			return
		}
		at = before.next
	}
}

// size returns the pool's bytes.
func (p *setPool) size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

func hashIDs(ids []uint16) uint64 {
	h := uint64(len(ids))
	for _, id := range ids {
		h = (h ^ uint64(id)) * fibonacci
		h ^= h >> 29
	}
	return h
}
