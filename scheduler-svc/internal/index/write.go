package index

import "sync/atomic"

// touched is how many units ahead of a writer or walker slots are read, so that their cache misses overlap.
const touched = 16

// add records g as a holder of units and returns how many it did not hold. A nil g is a holder without an id.
func (x *Index) add(g *generation, units []uint64) int {
	if g == nil {
		x.refused.Add(uint64(len(units)))
		return 0
	}
	var b digestBatch
	for len(units) > 0 {
		n := min(touched, len(units))
		x.touch(units[:n])
		for _, u := range units[:n] {
			if x.addOne(g, u) {
				b.count(u)
			}
		}
		units = units[n:]
	}
	g.added(b.units, b.Digest)
	return int(b.units)
}

func (x *Index) addOne(g *generation, key uint64) bool {
	s := x.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, w := s.table.Load().find(key)
	if w == 0 {
		if s.used >= x.perShard {
			x.evict(s, key)
			i, _ = s.table.Load().find(key)
		}
		s.insert(i, key, inlineWord([]uint16{g.id}))
		return true
	}
	if x.wordHas(w, g.id) {
		return false
	}
	out, ok := x.sets.with(w, g.id)
	if !ok {
		x.refused.Add(1)
		g.lost.Add(1)
		return false
	}
	s.table.Load().setWord(i, out)
	return true
}

// remove takes g out of the holders of units and returns how many it held.
func (x *Index) remove(g *generation, units []uint64) int {
	if g == nil {
		return 0
	}
	var b digestBatch
	for len(units) > 0 {
		n := min(touched, len(units))
		x.touch(units[:n])
		for _, u := range units[:n] {
			if x.removeOne(g, u) {
				b.count(u)
			}
		}
		units = units[n:]
	}
	g.removed(b.units, b.Digest)
	return int(b.units)
}

func (x *Index) removeOne(g *generation, key uint64) bool {
	s := x.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, w := s.table.Load().find(key)
	if w == 0 || !x.wordHas(w, g.id) {
		return false
	}
	out, ok := x.sets.without(w, g.id)
	x.replace(s, i, replacement{key: key, old: w, word: out, ok: ok, but: int(g.id)})
	return true
}

// replacement is the new word of a slot.
type replacement struct {
	key  uint64
	old  word
	word word
	ok   bool // false: no set could be made, all holders lose the unit
	but  int  // holder that is not told: it has asked for the removal
}

// replace stores a word that has lost holders, or empties the slot.
func (x *Index) replace(s *shard, i int, r replacement) {
	if !r.ok {
		x.loseAll(r.key, r.old, r.but)
		x.sets.drop(r.old)
		r.word = 0
	}
	if r.word != 0 {
		s.table.Load().setWord(i, r.word)
		return
	}
	s.remove(i)
	s.shrink()
}

// evict gives up the first unit behind a place drawn from the newcomer's hash.
func (x *Index) evict(s *shard, newcomer uint64) {
	t := s.table.Load()
	i := t.home((newcomer ^ x.evicted.Add(1)) * fibonacci)
	w, key := t.get(i)
	for w == 0 {
		i = t.next(i)
		w, key = t.get(i)
	}
	x.loseAll(key, w, notAtIndex)
	x.sets.drop(w)
	s.remove(i)
}

func (x *Index) loseAll(key uint64, w word, but int) {
	var buf [inlineMax]uint16
	ids := w.appendIDs(buf[:0], x.sets)
	for _, id := range ids {
		if int(id) != but {
			x.lose(id, key)
		}
	}
}

// appendIDs appends a word's holders. The caller has the shard's lock, so a set cannot go away.
func (w word) appendIDs(dst []uint16, sets *setPool) []uint16 {
	if !w.isSet() {
		return w.appendInline(dst)
	}
	return append(dst, sets.slot(w.place()).ids...)
}

// wordHas reports whether id is among a word's holders, under the shard's lock.
func (x *Index) wordHas(w word, id uint16) bool {
	if !w.isSet() {
		return w.indexInline(id) != notAtIndex
	}
	return contains(x.sets.slot(w.place()).ids, id)
}

// touch reads the slots of units, so that the loads of a batch run side by side.
func (x *Index) touch(units []uint64) {
	for _, u := range units {
		t := x.shardOf(u).table.Load()
		atomic.LoadUint64(&t.slots[t.home(u*fibonacci)].word)
	}
}
