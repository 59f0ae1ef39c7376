package index

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkArena compares the lists with a count of what the slots hold. Nobody may write meanwhile.
func checkArena(t *testing.T, a *arena) (used int) {
	t.Helper()
	var counts [listCount]int
	for at := range a.used {
		c := a.dir[at].Load()
		if c == nil {
			require.Contains(t, a.unused, at)
			continue
		}
		for i := range c.segments {
			live := 0
			for j := range segmentSlots {
				if w, _ := c.slots[i*segmentSlots+j].load(); w != 0 {
					live++
				}
			}
			s := &c.segments[i]
			require.Equal(t, int32(live), s.live.Load())
			used += live
			if s.list != listOpen {
				require.Equal(t, listOf(int32(live)), s.list)
			}
			if s.list < listCount {
				counts[s.list]++
			}
		}
	}
	require.Equal(t, counts, a.counts)
	for list, head := range a.heads {
		n := 0
		for ; head != noSegment; head = a.segmentAt(head).next {
			require.Equal(t, uint8(list), a.segmentAt(head).list)
			n++
		}
		require.Equal(t, counts[list], n)
	}
	return used
}

// TestListsFollowTheFill holds the lists to their bounds at every fill.
func TestListsFollowTheFill(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		live int32
		want uint8
	}{
		{-1, listFree},
		{0, listFree},
		{1, listSparse},
		{16, listSparse},
		{17, listHalf},
		{32, listHalf},
		{33, listMost},
		{48, listMost},
		{49, listTight},
		{63, listTight},
		{64, listFull},
	} {
		require.Equal(t, row.want, listOf(row.live), "%d in use", row.live)
	}
}

// TestArenaEqualsAModel has appenders place units and takes them out again in any order.
func TestArenaEqualsAModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 4))
		a := newArena(40_000)
		var ps [3]appender
		at, most := map[uint32]uint64{}, 0
		var order []uint32
		for key := range uint64(60_000) {
			if len(order) > 0 && r.IntN(100) < 30+int(key/10_000)*8 { // from growth to decline
				i := r.IntN(len(order))
				delete(at, order[i])
				a.free(order[i])
				order[i] = order[len(order)-1]
				order = order[:len(order)-1]
				continue
			}
			pos := ps[r.IntN(len(ps))].place(a, key, word(key<<8|1))
			_, taken := at[pos]
			require.False(t, taken, "a slot in use is not given away")
			at[pos] = key
			order = append(order, pos)
			most = max(most, len(order))
		}
		for pos, key := range at {
			w, k := a.at(pos).load()
			if k != key || w != word(key<<8|1) {
				t.Fatalf("slot %d holds %d with %d, want %d", pos, k, w, key)
			}
		}
		require.Equal(t, len(at), checkArena(t, a))
		require.LessOrEqual(t, a.slabs*slabSlots, most*4/3+2*slabSlots)
		for _, pos := range order {
			a.free(pos)
		}
		for i := range ps {
			ps[i].rest(a)
		}
		a.shrink()
		require.Zero(t, a.slabs)
		require.Zero(t, a.size())
		require.Nil(t, a.at(order[0]), "a reader with an old position finds nothing")
		require.NotPanics(t, func() { ps[0].place(a, 1, 1) })
	}
}

// TestRunsLieInSequence: what came together is read in sequence, by walkers and by the next holder's writer.
func TestRunsLieInSequence(t *testing.T) {
	t.Parallel()
	x := New(Config{})
	chain := randomUnits(rand.New(rand.NewPCG(1, 1)), 1000)
	a, b := x.Open(), x.Open()
	for i := 0; i < len(chain); i += 100 {
		a.Add(Device, chain[i:i+100])
		b.Add(Device, randomUnits(rand.New(rand.NewPCG(uint64(i), 2)), 3))
	}
	require.Equal(t, len(chain), b.Add(Device, chain))
	breaks, last := 0, uint32(0)
	for _, u := range chain {
		pos, _ := x.shardOf(u).read(x.arena, u)
		if pos != last+1 {
			breaks++
		}
		last = pos
	}
	require.LessOrEqual(t, breaks, len(chain)/segmentSlots+1)
	var w Walk
	w.next, _ = x.shardOf(chain[0]).read(x.arena, chain[0])
	require.Equal(t, segmentSlots-1, x.follow(chain[1:64], &w, 0))
}

// TestFollowStopsAtAChange: a reader that follows believes nothing of a segment that was opened meanwhile, nor of a slot
// that has changed its unit.
func TestFollowStopsAtAChange(t *testing.T) {
	t.Parallel()
	x := New(Config{})
	s := x.Open()
	chain := randomUnits(rand.New(rand.NewPCG(1, 7)), 10)
	s.Add(Device, chain)
	first, _ := x.shardOf(chain[0]).read(x.arena, chain[0])
	follow := func(units []uint64) int {
		w := Walk{next: first}
		return x.follow(units, &w, 0)
	}
	require.Equal(t, 9, follow(chain[1:]))
	require.Equal(t, 2, follow([]uint64{chain[1], chain[2], chain[4]}))
	s.Remove(Device, chain[5:6])
	require.Equal(t, 4, follow(chain[1:]), "up to the hole")
	require.Zero(t, x.follow(chain, &Walk{}, 0), "nothing is known at the start")
	require.Zero(t, x.follow(chain, &Walk{next: 1 << 31}, 0), "memory that was given back")
	_, ok := (&slot{word: 1, key: 5}).of(6)
	require.False(t, ok)
	_, ok = (&slot{word: 0, key: 5}).of(5)
	require.False(t, ok)
}

// TestLifeIsExact turns caches over as life does and compares every hit with what the worker holds.
func TestLifeIsExact(t *testing.T) {
	t.Parallel()
	for name, mix := range map[string]talkMix{"trace": traceMix, "chat": chatMix} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(mix, 4, 8000)
			for range 4 {
				l.run(4000)
				l.check(t)
				checkArena(t, l.index.arena)
			}
			w := l.workers[2]
			w.stream.Drop()
			w.held, w.idle, w.running, w.room = map[*talk]int{}, nil, nil, 8000
			l.check(t)
			l.index.Sweep()
			l.check(t)
			require.Equal(t, l.index.Stats().Units, checkArena(t, l.index.arena))
		})
	}
}

func (l *life) check(t *testing.T) {
	t.Helper()
	talks := map[*talk]struct{}{}
	for _, w := range l.workers {
		units := 0
		for talk, n := range w.held {
			talks[talk] = struct{}{}
			units += n
		}
		require.Equal(t, units, w.stream.Units())
	}
	var walk Walk
	for talk := range talks {
		l.index.Walk(talk.units, &walk)
		for i, w := range l.workers {
			if got := walk.Hit(w.stream.Number()); got != (Hit{Units: w.held[talk]}) {
				t.Fatalf("worker %d: %+v, want %d units", i, got, w.held[talk])
			}
		}
	}
}

// TestReadersBesideReusedSlots walks units between whose slots others come and go.
func TestReadersBesideReusedSlots(t *testing.T) {
	t.Parallel()
	x := New(Config{MaxUnits: 1 << 20})
	r := rand.New(rand.NewPCG(3, 2))
	s := x.Open()
	var steady, gone []uint64
	for range 400 {
		part := randomUnits(r, 32)
		s.Add(Device, part[:8])
		steady = append(steady, part[:8]...)
		gone = append(gone, part[8:]...)
		s.Add(Host, part[8:])
	}
	s.Remove(Host, gone) // three quarters of the slots are holes now
	done := make(chan struct{})
	var writers, readers sync.WaitGroup
	for seed := range uint64(2) {
		stream := x.Open()
		writers.Go(func() {
			r := rand.New(rand.NewPCG(seed, 11))
			var held []uint64
			for range 150 {
				units := randomUnits(r, 1+r.IntN(300))
				stream.Add(Device, units)
				held = append(held, units...)
				if len(held) > 9000 {
					stream.Remove(Device, held[:5000])
					held = slices.Clone(held[5000:])
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			var w Walk
			for open := true; open; {
				x.Walk(steady, &w)
				if got := w.Hit(s.Number()); got.Units != len(steady) || w.Hit(s.Number()+1).Units != 0 {
					t.Errorf("the steady stream's hit is %+v of %d", got, len(steady))
					return
				}
				select {
				case <-done:
					open = false
				default:
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	require.LessOrEqual(t, x.arena.slabs, 2, "the holes were reused")
	require.Equal(t, x.Stats().Units, checkArena(t, x.arena))
}
