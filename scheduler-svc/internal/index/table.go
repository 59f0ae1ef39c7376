package index

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	shardBits  = 6
	shardCount = 1 << shardBits
	fibonacci  = 0x9e3779b97f4a7c15 // 2^64 / golden ratio: spreads keys that are no good hashes by themselves
	minSlots   = 16
	slotBytes  = 16
	maxRetries = 16 // of an optimistic read before it takes the shard's lock
)

// slot is one unit. All access is atomic, because readers take no lock.
type slot struct{ word, key uint64 }

type table struct{ slots []slot }

func newTable(slots int) *table {
	t := &table{slots: make([]slot, slots)}
	adviseHuge(t.slots)
	return t
}

// home is where a key's probe begins; x is the spread key.
func (t *table) home(x uint64) int {
	hi, _ := bits.Mul64(x<<shardBits, uint64(len(t.slots)))
	return int(hi)
}

func (t *table) next(i int) int {
	if i++; i == len(t.slots) {
		return 0
	}
	return i
}

func (t *table) get(i int) (word, uint64) {
	s := &t.slots[i]
	w := atomic.LoadUint64(&s.word)
	return word(w), atomic.LoadUint64(&s.key)
}

// put fills a slot: the key first, so that a reader who sees the word sees its key.
func (t *table) put(i int, w word, key uint64) {
	s := &t.slots[i]
	atomic.StoreUint64(&s.key, key)
	atomic.StoreUint64(&s.word, uint64(w))
}

func (t *table) setWord(i int, w word) { atomic.StoreUint64(&t.slots[i].word, uint64(w)) }

// find returns the key's slot or the empty slot where its probe ends.
func (t *table) find(key uint64) (int, word) {
	for i := t.home(key * fibonacci); ; i = t.next(i) {
		w, k := t.get(i)
		if w == 0 || k == key {
			return i, w
		}
	}
}

// shard is a part of the table with a writer's lock. Readers take none: version is odd while slots move, and a reader
// that saw it odd or changed reads again. Storing into an empty slot or replacing a word moves nothing.
type shard struct {
	version atomic.Uint64
	table   atomic.Pointer[table]
	mu      sync.Mutex
	used    int
	_       [24]byte // a cache line of its own
}

// read returns the word of a key, 0 for none, without a lock unless the shard keeps moving.
func (s *shard) read(key uint64) word {
	for range maxRetries {
		v := s.version.Load()
		if v&1 != 0 {
			continue
		}
		_, w := s.table.Load().find(key)
		if s.version.Load() == v {
			return w
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, w := s.table.Load().find(key)
	return w
}

// insert stores a new key at the empty slot i, growing when more than three fifths are in use: a walk then mostly finds a
// unit at its first slot, and a unit costs 27 to 40 bytes.
func (s *shard) insert(i int, key uint64, w word) {
	t := s.table.Load()
	s.used++
	if s.used*5 > len(t.slots)*3 {
		t = s.resize(len(t.slots)*3/2 + 1)
		i, _ = t.find(key)
	}
	t.put(i, w, key)
}

// remove empties slot i and moves the rest of its run back, so that no tombstones stay.
func (s *shard) remove(i int) {
	t := s.table.Load()
	s.version.Add(1)
	s.used--
	for j := t.next(i); ; j = t.next(j) {
		w, k := t.get(j)
		if w == 0 {
			break
		}
		if t.distance(t.home(k*fibonacci), j) >= t.distance(i, j) {
			t.setWord(i, 0)
			t.put(i, w, k)
			i = j
		}
	}
	t.setWord(i, 0)
	s.version.Add(1)
}

// distance is how far j lies behind i on the ring of slots.
func (t *table) distance(i, j int) int {
	if j < i {
		j += len(t.slots)
	}
	return j - i
}

// shrink gives memory back once five sixths of a table are empty.
func (s *shard) shrink() {
	if n := len(s.table.Load().slots); n > minSlots && s.used*6 < n {
		s.resize(max(minSlots, s.used*5/2))
	}
}

// resize copies into a new table. Readers of the old one finish there: it is never written again.
func (s *shard) resize(slots int) *table {
	old, t := s.table.Load(), newTable(slots)
	for i := range old.slots {
		if w, k := old.get(i); w != 0 {
			at, _ := t.find(k)
			t.put(at, w, k)
		}
	}
	s.table.Store(t)
	return t
}
