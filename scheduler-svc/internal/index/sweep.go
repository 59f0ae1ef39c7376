package index

import "slices"

// idSet is a set of holder ids. Its 4 KiB stay in the first cache while a sweep passes over the arena.
type idSet [maxIDs / 64]uint64

func (s *idSet) add(id uint16)      { s[id/64] |= 1 << (id % 64) }
func (s *idSet) has(id uint16) bool { return s[id/64]>>(id%64)&1 != 0 }
func (s *idSet) not(id uint16) bool { return !s.has(id) }

// Sweep takes the entries of dead holders out of the table and frees their ids, and gives memory back. It reads the arena
// in order and locks a shard for one unit at a time, so readers go on and writers hardly wait. It returns the number of ids
// freed.
func (x *Index) Sweep() int {
	x.sweeping.Lock()
	defer x.sweeping.Unlock()
	x.mu.Lock()
	ids := x.ids.dead
	x.ids.dead = nil
	x.mu.Unlock()
	if len(ids) == 0 {
		return 0
	}
	var dead idSet
	for _, id := range ids {
		dead.add(id)
	}
	for at := range x.arena.dir {
		if c := x.arena.dir[at].Load(); c != nil {
			x.sweepSlab(uint32(at), c, &dead)
		}
	}
	x.shrink()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ids.free = append(x.ids.free, ids...)
	return len(ids)
}

// sweepSlab passes over a slab in order, and takes a shard's lock only for a unit that has, or may have, a dead holder. A
// slot that changes hands meanwhile gets a unit whose holders have been named after the sweep began, so it may be passed
// over.
func (x *Index) sweepSlab(at uint32, c *slab, dead *idSet) {
	for i := range c.slots {
		w, key := c.slots[i].load()
		if w == 0 || !x.mayHave(w, dead) {
			continue
		}
		x.sweepOne(at*slabSlots+uint32(i), key, dead)
	}
}

// mayHave is anyOf without a lock: a word whose set is gone may have any holder.
func (x *Index) mayHave(w word, ids *idSet) bool {
	if !w.isSet() {
		return anyInline(w, ids)
	}
	set := x.sets.load(w)
	return set == nil || slices.ContainsFunc(set.ids, ids.has)
}

func (x *Index) sweepOne(pos uint32, key uint64, dead *idSet) {
	s := x.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	w, k := x.arena.at(pos).load()
	if w == 0 || k != key || !x.anyOf(w, dead) {
		return
	}
	out, ok := x.sets.keep(w, dead.not)
	x.replace(s, pos, replacement{key: key, old: w, word: out, ok: ok, but: notAtIndex})
}

// shrink gives memory back that a sweep has freed.
func (x *Index) shrink() {
	for i := range x.shards {
		s := &x.shards[i]
		s.mu.Lock()
		s.shrink()
		s.mu.Unlock()
	}
	for i := range x.appenders {
		x.appenders[i].rest(x.arena)
	}
	x.arena.shrink()
}

// anyOf reports whether a word has one of the ids, under the shard's lock.
func (x *Index) anyOf(w word, ids *idSet) bool {
	if !w.isSet() {
		return anyInline(w, ids)
	}
	return slices.ContainsFunc(x.sets.slot(w.place()).ids, ids.has)
}

func anyInline(w word, ids *idSet) bool {
	for i := range w.count() {
		if ids.has(w.id(i)) {
			return true
		}
	}
	return false
}
