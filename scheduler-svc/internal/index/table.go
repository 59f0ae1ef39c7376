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
	entryBytes = 8
	maxRetries = 16 // of an optimistic read before it takes the shard's lock
)

// entry says where a unit lies: 32 bits of its spread key above the position in the arena + 1. 0 is empty. Two entries may
// have one tag; the keys are in the arena.
type entry uint64

const tagShift = 32

// tagOf returns the bits of a key's spread hash below those that choose the shard.
func tagOf(key uint64) uint32 { return uint32(key * fibonacci >> (64 - shardBits - tagShift)) }

func entryOf(tag, pos uint32) entry { return entry(tag)<<tagShift | entry(pos+1) }

func (e entry) tag() uint32 { return uint32(e >> tagShift) }

func (e entry) pos() uint32 { return uint32(e) - 1 }

// table is open addressing over entries. All access is atomic, because readers take no lock.
type table struct{ entries []uint64 }

func newTable(entries int) *table {
	t := &table{entries: make([]uint64, entries)}
	adviseHuge(t.entries)
	return t
}

// home is where a tag's probe begins.
func (t *table) home(tag uint32) int {
	hi, _ := bits.Mul64(uint64(tag)<<(64-tagShift), uint64(len(t.entries)))
	return int(hi)
}

func (t *table) next(i int) int {
	if i++; i == len(t.entries) {
		return 0
	}
	return i
}

func (t *table) get(i int) entry { return entry(atomic.LoadUint64(&t.entries[i])) }

func (t *table) put(i int, e entry) { atomic.StoreUint64(&t.entries[i], uint64(e)) }

// find returns the position of a key in the arena + 1 and its word, or 0 and 0.
func (t *table) find(a *arena, key uint64) (uint32, word) {
	tag := tagOf(key)
	for i := t.home(tag); ; i = t.next(i) {
		e := t.get(i)
		if e == 0 {
			return 0, 0
		}
		if e.tag() != tag {
			continue
		}
		if s := a.at(e.pos()); s != nil {
			if w, k := s.load(); k == key && w != 0 {
				return e.pos() + 1, w
			}
		}
	}
}

// place returns where an entry is, or the empty place where its probe ends.
func (t *table) place(e entry) int {
	i := t.home(e.tag())
	for now := t.get(i); now != 0 && now != e; now = t.get(i) {
		i = t.next(i)
	}
	return i
}

// shard is a part of the table with a writer's lock. Readers take none: version is odd while entries leave or move, and a
// reader that saw it odd or changed reads again. A new entry or a replaced word moves nothing.
type shard struct {
	version atomic.Uint64
	table   atomic.Pointer[table]
	mu      sync.Mutex
	used    int
	_       [24]byte // a cache line of its own
}

// read returns the position + 1 and the word of a key, zeros for none, without a lock unless the shard keeps moving.
func (s *shard) read(a *arena, key uint64) (uint32, word) {
	for range maxRetries {
		v := s.version.Load()
		if v&1 != 0 {
			continue
		}
		pos, w := s.table.Load().find(a, key)
		if s.version.Load() == v {
			return pos, w
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Load().find(a, key)
}

// insert enters a new unit, growing when more than seven tenths are in use: a unit costs 11 to 17 bytes here.
func (s *shard) insert(e entry) {
	t := s.table.Load()
	s.used++
	if s.used*10 > len(t.entries)*7 {
		t = s.resize(len(t.entries)*3/2 + 1)
	}
	t.put(t.place(e), e)
}

// remove takes entry i out and moves the rest of its run back, so that no tombstones stay.
func (s *shard) remove(i int) {
	t := s.table.Load()
	s.version.Add(1)
	s.used--
	for j := t.next(i); ; j = t.next(j) {
		e := t.get(j)
		if e == 0 {
			break
		}
		if t.distance(t.home(e.tag()), j) >= t.distance(i, j) {
			t.put(i, e)
			i = j
		}
	}
	t.put(i, 0)
	s.version.Add(1)
}

// distance is how far j lies behind i on the ring of entries.
func (t *table) distance(i, j int) int {
	if j < i {
		j += len(t.entries)
	}
	return j - i
}

// shrink gives memory back once five sixths of a table are empty.
func (s *shard) shrink() {
	if n := len(s.table.Load().entries); n > minSlots && s.used*6 < n {
		s.resize(max(minSlots, s.used*5/2))
	}
}

// resize copies into a new table. Readers of the old one finish there: it is never written again.
func (s *shard) resize(entries int) *table {
	old, t := s.table.Load(), newTable(entries)
	for i := range old.entries {
		if e := old.get(i); e != 0 {
			t.put(t.place(e), e)
		}
	}
	s.table.Store(t)
	return t
}
