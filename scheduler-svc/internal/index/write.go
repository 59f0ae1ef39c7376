package index

import "sync/atomic"

const (
	// touched is how many units ahead of a writer or walker entries are read, so that their cache misses overlap.
	touched = 16
	// written is how many units a writer stores before another stream may use its appender.
	written = 64
)

// add records g as a holder of units and returns how many it did not hold. A nil g is a holder without an id.
func (x *Index) add(g *generation, p *appender, units []uint64) int {
	if g == nil {
		x.refused.Add(uint64(len(units)))
		return 0
	}
	w := writer{index: x, g: g, appender: p}
	for len(units) > 0 {
		n := min(written, len(units))
		w.add(units[:n])
		units = units[n:]
	}
	g.added(w.units, w.Digest)
	return int(w.units)
}

// writer changes one generation's units. next is where the unit after the last one lies if both came together, 0 when
// unknown.
type writer struct {
	digestBatch
	index    *Index
	g        *generation
	appender *appender
	next     uint32
}

func (w *writer) add(units []uint64) {
	w.appender.mu.Lock()
	defer w.appender.mu.Unlock()
	for len(units) > 0 {
		n := min(touched, len(units))
		w.touch(units[:n])
		for _, u := range units[:n] {
			if w.addOne(u) {
				w.count(u)
			}
		}
		units = units[n:]
	}
}

func (w *writer) addOne(key uint64) bool {
	x := w.index
	s := x.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	at, holders := w.find(s, key)
	if at == 0 {
		if s.used >= x.perShard {
			x.evict(s, key)
		}
		pos := w.appender.place(x.arena, key, inlineWord([]uint16{w.g.id}))
		s.insert(entryOf(tagOf(key), pos))
		w.next = pos + 1
		return true
	}
	w.next = at
	if x.wordHas(holders, w.g.id) {
		return false
	}
	out, ok := x.sets.with(holders, w.g.id)
	if !ok {
		x.refused.Add(1)
		w.g.lost.Add(1)
		return false
	}
	x.arena.at(at - 1).set(out)
	return true
}

// find returns a key's position + 1 and word, zeros when it has none, under its shard's lock.
func (w *writer) find(s *shard, key uint64) (uint32, word) {
	a := w.index.arena
	if w.next != 0 {
		if next := a.at(w.next); next != nil {
			if holders, k := next.load(); k == key && holders != 0 {
				return w.next + 1, holders
			}
		}
	}
	return s.table.Load().find(a, key)
}

// remove takes g out of the holders of units and returns how many it held.
func (x *Index) remove(g *generation, units []uint64) int {
	if g == nil {
		return 0
	}
	w := writer{index: x, g: g}
	for len(units) > 0 {
		n := min(touched, len(units))
		w.touch(units[:n])
		for _, u := range units[:n] {
			if w.removeOne(u) {
				w.count(u)
			}
		}
		units = units[n:]
	}
	g.removed(w.units, w.Digest)
	return int(w.units)
}

func (w *writer) removeOne(key uint64) bool {
	x := w.index
	s := x.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	at, holders := w.find(s, key)
	if at == 0 {
		return false
	}
	w.next = at
	if !x.wordHas(holders, w.g.id) {
		return false
	}
	out, ok := x.sets.without(holders, w.g.id)
	if x.replace(s, at-1, replacement{key: key, old: holders, word: out, ok: ok, but: int(w.g.id)}) {
		s.shrink()
	}
	return true
}

// touch reads the entries and slots of units, so that the loads of a batch run side by side. Units that lie behind the
// last one need neither.
func (w *writer) touch(units []uint64) {
	x := w.index
	if w.next != 0 {
		if next := x.arena.at(w.next); next != nil && atomic.LoadUint64(&next.key) == units[0] {
			return
		}
	}
	var es [touched]entry
	for i, u := range units {
		es[i] = x.first(u)
	}
	for i, u := range units {
		if es[i] != 0 && es[i].tag() == tagOf(u) {
			if s := x.arena.at(es[i].pos()); s != nil {
				atomic.LoadUint64(&s.word)
			}
		}
	}
}

// first returns the first entry of a key's probe.
func (x *Index) first(key uint64) entry {
	t := x.shardOf(key).table.Load()
	return t.get(t.home(tagOf(key)))
}

// replacement is the new word of a unit.
type replacement struct {
	key  uint64
	old  word
	word word
	ok   bool // false: no set could be made, all holders lose the unit
	but  int  // holder that is not told: it has asked for the removal
}

// replace stores a word that has lost holders, or forgets the unit and reports true.
func (x *Index) replace(s *shard, pos uint32, r replacement) bool {
	if !r.ok {
		x.loseAll(r.key, r.old, r.but)
		x.sets.drop(r.old)
		r.word = 0
	}
	if r.word != 0 {
		x.arena.at(pos).set(r.word)
		return false
	}
	s.remove(s.table.Load().place(entryOf(tagOf(r.key), pos)))
	x.arena.free(pos)
	return true
}

// evict gives up the first unit behind a place drawn from the newcomer's hash.
func (x *Index) evict(s *shard, newcomer uint64) {
	t := s.table.Load()
	i := t.home(tagOf(newcomer ^ x.evicted.Add(1)))
	e := t.get(i)
	for e == 0 {
		i = t.next(i)
		e = t.get(i)
	}
	w, key := x.arena.at(e.pos()).load()
	x.loseAll(key, w, notAtIndex)
	x.sets.drop(w)
	s.remove(i)
	x.arena.free(e.pos())
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
