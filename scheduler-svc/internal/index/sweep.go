package index

// Sweep takes the entries of dead holders out of the table and frees their ids. It locks one shard after another, so
// readers go on and writers wait for a shard at most. It returns the number of ids freed.
func (x *Index) Sweep() int {
	x.sweeping.Lock()
	defer x.sweeping.Unlock()
	x.mu.Lock()
	dead := x.ids.dead
	x.ids.dead = nil
	x.mu.Unlock()
	if len(dead) == 0 {
		return 0
	}
	for i := range x.shards {
		x.sweepShard(&x.shards[i])
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ids.free = append(x.ids.free, dead...)
	return len(dead)
}

func (x *Index) sweepShard(s *shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i < len(s.table.Load().slots); {
		w, key := s.table.Load().get(i)
		if w == 0 || !x.anyDead(w) {
			i++
			continue
		}
		out, ok := x.sets.keep(w, x.alive)
		if ok && out != 0 {
			s.table.Load().setWord(i, out)
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

func (x *Index) alive(id uint16) bool { return x.meta[id].Load() != metaDead }

func (x *Index) anyDead(w word) bool {
	if !w.isSet() {
		for i := range w.count() {
			if !x.alive(w.id(i)) {
				return true
			}
		}
		return false
	}
	for _, id := range x.sets.slot(w.place()).ids {
		if !x.alive(id) {
			return true
		}
	}
	return false
}
