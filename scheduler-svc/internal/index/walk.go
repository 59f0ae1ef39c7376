package index

import "slices"

// Hit is what one stream holds of a prompt.
type Hit struct {
	Units int // longest held prefix
	Slow  int // of these, units that no faster tier than Host has
}

type reach struct{ units, fast uint32 }

// Walk is the result of one pass over a prompt. Reuse it: a walk allocates only when the number of streams has grown.
type Walk struct {
	reach []reach
	held  int
	words [fetched]word
	next  uint32 // where the unit after the last one lies if both came together, 0 when unknown
}

// Hit returns the stream's hit; number is Stream.Number.
func (w *Walk) Hit(number int) Hit {
	if number >= len(w.reach) {
		return Hit{}
	}
	r := w.reach[number]
	return Hit{Units: int(r.units), Slow: int(r.units - min(r.units, r.fast))}
}

// Held is the number of leading units that some stream holds together with all units before them.
func (w *Walk) Held() int { return w.held }

// fetched is how many units are read before their holders are looked at.
const fetched = 128

// walkAttempts bounds the repetitions of a walk across reused ids. A repetition needs a stream that ended, a whole sweep
// and a new stream within the microseconds of a walk.
const walkAttempts = 4

// Walk finds the longest held prefix of the units for every stream in one pass, which ends at the first unit where no
// stream goes on. Units are chained, so order matters and gaps do not count.
func (x *Index) Walk(units []uint64, w *Walk) {
	for range walkAttempts {
		seen := x.reused.Load()
		x.walk(units, w)
		if x.reused.Load() == seen {
			return
		}
	}
	x.mu.Lock() // no id changes hands while this is held
	defer x.mu.Unlock()
	x.walk(units, w)
}

func (x *Index) walk(units []uint64, w *Walk) {
	streams := int(x.opened.Load())
	w.reach = slices.Grow(w.reach[:0], streams)[:streams]
	clear(w.reach)
	w.held, w.next = 0, 0
	var last word // of the run that ends before more
	var more step // units of the same word, in later batches: taken at once when it ends
	for at := 0; at < len(units); at += fetched {
		part := units[at:min(at+fetched, len(units))]
		got := x.fetch(part, w)
		for i := 0; i < got; {
			run := 1
			for i+run < got && w.words[i+run] == w.words[i] {
				run++
			}
			st := step{at: uint32(at + i), run: uint32(run)}
			i += run
			now := w.words[i-1]
			if now == last {
				more.run += st.run
				continue
			}
			if !x.take(w, units, more, last) || !x.take(w, units, st, now) {
				return
			}
			last, more = now, step{at: st.at + st.run}
		}
		if got < len(part) {
			break
		}
	}
	x.take(w, units, more, last)
}

// take lengthens the reach by a step's units and reports whether somebody holds them; an empty step changes nothing.
func (x *Index) take(w *Walk, units []uint64, st step, holders word) bool {
	if st.run == 0 {
		return true
	}
	if !x.extend(w, st, holders) && !x.extendStale(w, st, units, holders) {
		return false
	}
	w.held = int(st.at + st.run)
	return true
}

// fetch reads the words of units, up to the first that nobody holds, and returns how many. Units mostly lie behind one
// another, so it follows the arena. Where a segment ends, the table says where the run goes on. Where a run breaks off
// within a segment, single units of an answer may come: as many are looked up at once as a batch holds, so that their
// misses overlap.
func (x *Index) fetch(units []uint64, w *Walk) int {
	for i := 0; ; {
		i += x.follow(units[i:], w, i)
		ahead := touched
		if w.next%segmentSlots == 0 { // also at the start, where nothing is known
			ahead = 1
		}
		next := min(i+ahead, len(units))
		i += x.lookup(units[i:next], w, i)
		if i < next || i == len(units) {
			return i
		}
	}
}

// follow reads the words of units as long as they lie in the arena one after another from where the last one ended.
func (x *Index) follow(units []uint64, w *Walk, at int) int {
	n := 0
	for w.next != 0 && n < len(units) {
		c := x.arena.slabAt(w.next)
		if c == nil {
			break
		}
		first := w.next % slabSlots
		s := &c.segments[first>>segmentBits]
		version := s.version.Load()
		slots := c.slots[first : (first|(segmentSlots-1))+1]
		slots = slots[:min(len(slots), len(units)-n)]
		same := 0
		for i := range slots {
			word, ok := slots[i].of(units[n+i])
			if !ok {
				break
			}
			w.words[at+n+i] = word
			same++
		}
		if s.version.Load() != version {
			break
		}
		n += same
		w.next += uint32(same)
		if same < len(slots) {
			break
		}
	}
	return n
}

// lookup reads the words of units through the table, up to the first that nobody holds, and returns how many. The first
// loops only load, so that their misses overlap.
func (x *Index) lookup(units []uint64, w *Walk, at int) int {
	var es [touched]entry
	var found [touched]struct{ word, key uint64 }
	var versions [touched]uint64
	for i, u := range units {
		s := x.shardOf(u)
		versions[i] = s.version.Load()
		t := s.table.Load()
		es[i] = t.get(t.home(tagOf(u)))
	}
	for i := range units {
		if es[i] == 0 {
			continue
		}
		if s := x.arena.at(es[i].pos()); s != nil {
			word, key := s.load()
			found[i].word, found[i].key = uint64(word), key
		}
	}
	for i, u := range units {
		s := x.shardOf(u)
		pos, word := es[i].pos()+1, word(found[i].word)
		if versions[i]&1 != 0 || s.version.Load() != versions[i] || es[i] != 0 && (found[i].key != u || word == 0) {
			pos, word = s.read(x.arena, u)
		}
		if word == 0 {
			return i
		}
		w.words[at+i], w.next = word, pos
	}
	return len(units)
}

// step is a run of units with one word.
type step struct{ at, run uint32 }

// extend lengthens the reach of the streams that hold the step's units and everything before, and reports whether
// there is any.
func (x *Index) extend(w *Walk, st step, holders word) bool {
	found := false
	if !holders.isSet() {
		for i := range holders.count() {
			found = x.extendOne(w, st, holders.id(i)) || found
		}
		return found
	}
	set := x.sets.load(holders)
	if set == nil {
		return false
	}
	for _, id := range set.ids {
		found = x.extendOne(w, st, id) || found
	}
	return found
}

func (x *Index) extendOne(w *Walk, st step, id uint16) bool {
	m := x.meta[id].Load()
	if m&metaHidden != 0 {
		return false
	}
	number := metaStream(m)
	if number >= len(w.reach) {
		return false
	}
	r, end := &w.reach[number], st.at+st.run
	if r.units == st.at {
		r.units = end
	}
	if r.units != end {
		return false
	}
	if metaTier(m) == Device {
		r.fast += st.run
	}
	return true
}

// extendStale repeats a step that found nobody because its shared set was dissolved between fetch and use. It reads unit
// by unit under the shards' locks and stops where nobody goes on.
func (x *Index) extendStale(w *Walk, st step, units []uint64, seen word) bool {
	if !seen.isSet() || x.sets.load(seen) != nil {
		return false
	}
	for i, u := range units[st.at : st.at+st.run] {
		one := step{at: st.at + uint32(i), run: 1}
		found := false
		for _, id := range x.holders(u) {
			found = x.extendOne(w, one, id) || found
		}
		if !found {
			return false
		}
		w.held = int(one.at) + 1
	}
	return true
}

// holders reads a unit's holder ids under the shard's lock.
func (x *Index) holders(unit uint64) []uint16 {
	s := x.shardOf(unit)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, w := s.table.Load().find(x.arena, unit)
	return w.appendIDs(nil, x.sets)
}

// has reports whether id is among the holders of the unit whose word w was read without a lock.
func (x *Index) has(w word, id uint16, unit uint64) bool {
	if !w.isSet() {
		return w.indexInline(id) != notAtIndex
	}
	if set := x.sets.load(w); set != nil {
		return contains(set.ids, id)
	}
	return contains(x.holders(unit), id)
}

func contains(ids []uint16, id uint16) bool {
	_, ok := slices.BinarySearch(ids, id)
	return ok
}
