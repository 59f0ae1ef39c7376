package index

// idSet is a set of holder ids. Its 4 KiB stay in the first cache while a sweep passes over the table.
type idSet [maxIDs / 64]uint64

func (s *idSet) add(id uint16)      { s[id/64] |= 1 << (id % 64) }
func (s *idSet) has(id uint16) bool { return s[id/64]>>(id%64)&1 != 0 }
func (s *idSet) not(id uint16) bool { return !s.has(id) }

// Sweep takes the entries of dead holders out of the table and frees their ids. It locks one shard after another, so
// readers go on and writers wait for a shard at most. It returns the number of ids freed.
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
	for i := range x.shards {
		x.sweepShard(&x.shards[i], &dead)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ids.free = append(x.ids.free, ids...)
	return len(ids)
}

func (x *Index) sweepShard(s *shard, dead *idSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table.Load()
	for i := 0; i < len(t.slots); {
		w, key := t.get(i)
		if w == 0 || !x.anyOf(w, dead) {
			i++
			continue
		}
		out, ok := x.sets.keep(w, dead.not)
		if ok && out != 0 {
			t.setWord(i, out)
			i++
			continue
		}
		if !ok {
			x.loseAll(key, w, notAtIndex)
			x.sets.drop(w)
		}
		s.remove(i) // another unit may have moved here: look again
	}
	s.shrink()
}

// anyOf reports whether a word has one of the ids, under the shard's lock.
func (x *Index) anyOf(w word, ids *idSet) bool {
	if !w.isSet() {
		for i := range w.count() {
			if ids.has(w.id(i)) {
				return true
			}
		}
		return false
	}
	for _, id := range x.sets.slot(w.place()).ids {
		if ids.has(id) {
			return true
		}
	}
	return false
}
