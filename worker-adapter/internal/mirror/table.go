package mirror

import "math/bits"

const (
	// fibonacci is 2^64 / golden ratio: it spreads keys that are no good hashes by themselves.
	fibonacci = 0x9e3779b97f4a7c15
	// minPlaces is the size of an empty table.
	minPlaces = 16
	tagShift  = 32
)

// entry says where a block lies: 32 bits of its hash, spread, above its position in the slab + 1. 0 is empty. Two
// blocks may have one tag; the hashes are in the slab.
type entry uint64

func entryOf(hash uint64, at int32) entry {
	return entry(hash*fibonacci>>tagShift<<tagShift) | entry(uint32(at)+1)
}

func (e entry) at() int32 { return int32(uint32(e)) - 1 }

// blockTable is open addressing over entries: a block costs 11 to 17 bytes here, and a look-up one line of memory
// beside the block itself.
type blockTable struct {
	places []entry
	used   int
	warmed entry
}

// home is where the probe of an entry begins.
func (t *blockTable) home(e entry) int { return scale(uint64(e>>tagShift<<tagShift), len(t.places)) }

// scale maps the upper bits of x to 0 … n-1.
func scale(x uint64, n int) int {
	hi, _ := bits.Mul64(x, uint64(n))
	return int(hi)
}

// next is the place after i on a ring of n.
func next(i, n int) int {
	if i++; i == n {
		return 0
	}
	return i
}

// distance is how far j lies behind i on a ring of n.
func distance(i, j, n int) int {
	if j < i {
		j += n
	}
	return j - i
}

// find is the position of a hash, or none.
func (t *blockTable) find(slab []block, hash uint64) int32 {
	if t.used == 0 {
		return none
	}
	want := entryOf(hash, none)
	for i := t.home(want); t.places[i] != 0; i = next(i, len(t.places)) {
		e := t.places[i]
		if e>>tagShift == want>>tagShift && slab[e.at()].hash == hash {
			return e.at()
		}
	}
	return none
}

// insert enters a block that is not there, growing beyond seven tenths.
func (t *blockTable) insert(hash uint64, at int32) {
	t.used++
	if t.used*10 > len(t.places)*7 {
		t.grow()
	}
	t.put(entryOf(hash, at))
}

// grow moves all entries to a table half as large again.
func (t *blockTable) grow() {
	old := t.places
	t.places = make([]entry, max(minPlaces, len(old)*3/2+1))
	for _, e := range old {
		if e != 0 {
			t.put(e)
		}
	}
}

// put writes an entry where its probe ends.
func (t *blockTable) put(e entry) {
	i := t.home(e)
	for t.places[i] != 0 {
		i = next(i, len(t.places))
	}
	t.places[i] = e
}

// remove takes a block out that is there, and moves the rest of its run back, so that no tombstones stay.
func (t *blockTable) remove(hash uint64, at int32) {
	gone, n := entryOf(hash, at), len(t.places)
	i := t.home(gone)
	for t.places[i] != gone {
		i = next(i, n)
	}
	t.used--
	for j := next(i, n); t.places[j] != 0; j = next(j, n) {
		if distance(t.home(t.places[j]), j, n) >= distance(i, j, n) {
			t.places[i] = t.places[j]
			i = j
		}
	}
	t.places[i] = 0
}

// warm reads where the probes of hashes begin, which brings those lines of memory near. The sum keeps the reads.
func (t *blockTable) warm(hashes []uint64) {
	if t.used == 0 {
		return
	}
	sum := entry(0)
	for _, h := range hashes {
		sum += t.places[t.home(entryOf(h, none))]
	}
	t.warmed = sum
}
