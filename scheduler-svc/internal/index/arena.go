package index

import (
	"sync"
	"sync/atomic"
)

const (
	segmentBits  = 6
	segmentSlots = 1 << segmentBits // 1 KiB: a step's units mostly fit
	slabBits     = 14
	slabSlots    = 1 << slabBits // 256 KiB
	slabSegments = slabSlots / segmentSlots
	slotBytes    = 16
	segmentBytes = 24
	slabBytes    = slabSlots*slotBytes + slabSegments*segmentBytes
	noSegment    = ^uint32(0)
)

// slot is one unit. All access is atomic, because readers take no lock. A slot with word 0 is free, whatever its key. Only
// the lock of the key's shard gives the right to change the word of a slot that is in use, and only an open segment's
// appender may fill a free one.
type slot struct{ word, key uint64 }

func (s *slot) load() (word, uint64) {
	w := atomic.LoadUint64(&s.word)
	return word(w), atomic.LoadUint64(&s.key)
}

// of returns the word of a unit if the slot is its own, to a reader that compares the segment's version before and after.
func (s *slot) of(key uint64) (word, bool) {
	if atomic.LoadUint64(&s.key) != key {
		return 0, false
	}
	w := atomic.LoadUint64(&s.word)
	return word(w), w != 0 && atomic.LoadUint64(&s.key) == key
}

// fill takes a free slot: the key first, so that a reader who sees the word sees its key.
func (s *slot) fill(w word, key uint64) {
	atomic.StoreUint64(&s.key, key)
	atomic.StoreUint64(&s.word, uint64(w))
}

func (s *slot) set(w word) { atomic.StoreUint64(&s.word, uint64(w)) }

// segment is the state of segmentSlots neighbouring slots. It is filled in passes from its first slot to its last. version
// grows with each pass, so that within one version a slot changes its key at most once: a reader that finds key, word, key
// and the version unchanged has read the word of that key.
type segment struct {
	version atomic.Uint32
	live    atomic.Int32 // slots in use
	// The arena's lock guards what follows.
	list       uint8
	prev, next uint32 // in the list
}

// The lists of segments, by slots in use. Full ones are in none.
const (
	listFree   = iota // nothing in use
	listSparse        // up to a quarter
	listHalf          // up to a half
	listMost          // up to three quarters
	listTight         // more
	listCount
	listFull = listCount
	listOpen = listCount + 1
)

// wasted is how many slots a segment of each list is taken to have free.
func wasted(list int) int { return [listCount]int{segmentSlots, 56, 40, 24, 8}[list] }

func listOf(live int32) uint8 {
	switch {
	case live <= 0:
		return listFree
	case live == segmentSlots:
		return listFull
	default:
		return listSparse + uint8((live-1)/(segmentSlots/4))
	}
}

type slab struct {
	slots    [slabSlots]slot
	segments [slabSegments]segment
}

// arena holds the slots. Units that arrive together lie side by side, in the order in which they came, so that a walk
// over them reads memory in sequence. Freed slots are holes until their segment is opened again: that happens to empty
// segments first, and to the emptiest when more than a quarter of all slots is free. The arena grows only when neither is
// to be had, so it has at most about four thirds of the slots that were in use at once, and one open segment per appender.
type arena struct {
	dir []atomic.Pointer[slab]

	mu     sync.Mutex
	heads  [listCount]uint32
	counts [listCount]int
	slabs  int
	unused []uint32 // places of the directory without a slab, below used
	used   uint32
}

// newArena has room for about twice the units at once.
func newArena(units int) *arena {
	a := &arena{dir: make([]atomic.Pointer[slab], max(4, 2*units/slabSlots+appenderCount*segmentSlots/slabSlots+1))}
	for i := range a.heads {
		a.heads[i] = noSegment
	}
	return a
}

// slabAt returns the slab of a position, or nil when it has been given back or never was.
func (a *arena) slabAt(pos uint32) *slab {
	if i := pos >> slabBits; int(i) < len(a.dir) {
		return a.dir[i].Load()
	}
	return nil
}

// at returns the slot of a position, or nil when its memory has been given back.
func (a *arena) at(pos uint32) *slot {
	c := a.slabAt(pos)
	if c == nil {
		return nil
	}
	return &c.slots[pos%slabSlots]
}

// segmentAt returns a segment by number; its slab must be there.
func (a *arena) segmentAt(n uint32) *segment {
	return &a.dir[n/slabSegments].Load().segments[n%slabSegments]
}

// free empties a slot whose unit has left the table.
func (a *arena) free(pos uint32) {
	c := a.slabAt(pos)
	c.slots[pos%slabSlots].set(0)
	s := &c.segments[pos%slabSlots>>segmentBits]
	live := s.live.Add(-1)
	if listOf(live) == listOf(live+1) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.list != listOpen {
		a.file(pos>>segmentBits, s)
	}
}

// file moves a segment to the list of its fill.
func (a *arena) file(n uint32, s *segment) {
	to := listOf(s.live.Load())
	if s.list == to {
		return
	}
	a.unlink(s)
	s.list = to
	if to == listFull {
		return
	}
	s.prev, s.next = noSegment, a.heads[to]
	if s.next != noSegment {
		a.segmentAt(s.next).prev = n
	}
	a.heads[to] = n
	a.counts[to]++
}

func (a *arena) unlink(s *segment) {
	if s.list >= listCount {
		return
	}
	if s.prev == noSegment {
		a.heads[s.list] = s.next
	} else {
		a.segmentAt(s.prev).next = s.next
	}
	if s.next != noSegment {
		a.segmentAt(s.next).prev = s.prev
	}
	a.counts[s.list]--
}

// open takes a segment out for filling, and closes another one first unless its number is noSegment.
func (a *arena) open(closing uint32) uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.close(closing)
	n := a.pick()
	s := a.segmentAt(n)
	a.unlink(s)
	s.list = listOpen
	s.version.Add(1)
	return n
}

func (a *arena) close(n uint32) {
	if n != noSegment {
		a.file(n, a.segmentAt(n))
	}
}

func (a *arena) pick() uint32 {
	if n := a.heads[listFree]; n != noSegment {
		return n
	}
	idle := 0
	for list, n := range a.counts {
		idle += n * wasted(list)
	}
	if idle*4 > a.slabs*slabSlots || !a.grow() {
		for list := listSparse; list < listCount; list++ {
			if n := a.heads[list]; n != noSegment {
				return n
			}
		}
	}
	return a.heads[listFree]
}

// grow adds a slab, unless the directory is full. Its first segment will be opened first.
func (a *arena) grow() bool {
	var at uint32
	switch n := len(a.unused); {
	case n > 0:
		at = a.unused[n-1]
		a.unused = a.unused[:n-1]
	case int(a.used) < len(a.dir):
		at = a.used
		a.used++
	default:
		return false
	}
	c := new(slab)
	adviseHuge(c.slots[:])
	a.slabs++
	a.dir[at].Store(c)
	for i := slabSegments - 1; i >= 0; i-- {
		c.segments[i].list = listOpen
		a.file(at*slabSegments+uint32(i), &c.segments[i])
	}
	return true
}

// shrink gives slabs without units back.
func (a *arena) shrink() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for at := range a.used {
		if c := a.dir[at].Load(); c != nil && c.idle() {
			for i := range c.segments {
				a.unlink(&c.segments[i])
			}
			a.dir[at].Store(nil)
			a.unused = append(a.unused, at)
			a.slabs--
		}
	}
}

func (c *slab) idle() bool {
	for i := range c.segments {
		if c.segments[i].list != listFree {
			return false
		}
	}
	return true
}

// size returns the bytes of all slabs.
func (a *arena) size() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(a.slabs) * slabBytes
}

// appenderCount bounds the open segments. Streams share appenders by their number.
const appenderCount = 256

// appender fills one segment after another.
type appender struct {
	mu     sync.Mutex
	number uint32 // of the open segment + 1, 0 when none is open
	next   uint32 // slot of it to look at
}

// place stores a new unit in the next free slot and returns its position. The caller holds the lock of the key's shard.
func (p *appender) place(a *arena, key uint64, w word) uint32 {
	for {
		if p.number == 0 || p.next == segmentSlots {
			p.number, p.next = a.open(p.number-1)+1, 0
		}
		n := p.number - 1
		c := a.dir[n/slabSegments].Load()
		first := n % slabSegments * segmentSlots
		for ; p.next < segmentSlots; p.next++ {
			s := &c.slots[first+p.next]
			if now, _ := s.load(); now == 0 {
				s.fill(w, key)
				c.segments[n%slabSegments].live.Add(1)
				p.next++
				return n*segmentSlots + p.next - 1
			}
		}
	}
}

// rest closes the segment if nothing in it is in use.
func (p *appender) rest(a *arena) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.number == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.segmentAt(p.number-1).live.Load() == 0 {
		a.close(p.number - 1)
		p.number, p.next = 0, 0
	}
}
