package index

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func randomUnits(r *rand.Rand, n int) []uint64 {
	units := make([]uint64, n)
	for i := range units {
		units[i] = r.Uint64()
	}
	return units
}

// TestReadersBesideWriters has walkers that check what must hold at every moment while other streams come and go: the
// steady streams' hits never shrink, and nobody is credited with a unit that it never held.
func TestReadersBesideWriters(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	x := New(Config{})
	chain := randomUnits(r, 400)
	steady := make([]*Stream, 6)
	for i := range steady {
		steady[i] = x.Open()
		steady[i].Add(Device, chain[:50*(i+1)])
	}
	never := x.Open() // holds other units only
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for seed := range uint64(3) {
		writers.Go(func() { churn(x, chain, rand.New(rand.NewPCG(seed, 3))) })
	}
	readers.Go(func() {
		for open := true; open; {
			x.Sweep()
			select {
			case <-done:
				open = false
			default:
			}
		}
	})
	for range 2 {
		readers.Go(func() {
			var w Walk
			for open := true; open; {
				x.Walk(chain, &w)
				for i, s := range steady {
					if got := w.Hit(s.Number()); got.Units != 50*(i+1) {
						t.Errorf("steady stream %d: %d units, want %d", i, got.Units, 50*(i+1))
						return
					}
				}
				if w.Hit(never.Number()).Units != 0 {
					t.Error("credited a stream with units that it never held")
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
	x.Sweep()
	require.Equal(t, 300, x.Stats().Units)
}

// churn makes many holders of the chain come and go, through shared sets, moved slots and reused ids.
func churn(x *Index, chain []uint64, r *rand.Rand) {
	for range 30 {
		s := x.Open()
		own := randomUnits(r, 500)
		s.Add(Device, own)
		s.Add(Host, chain[r.IntN(200):])
		s.Remove(Host, chain[r.IntN(300):])
		s.Remove(Device, own[:250])
		load := s.Replace()
		load.Add(Device, chain[:r.IntN(len(chain))])
		load.Commit()
		s.Close()
	}
}

func TestUnitBound(t *testing.T) {
	t.Parallel()
	const bound = 4096
	r := rand.New(rand.NewPCG(5, 6))
	x := New(Config{MaxUnits: bound})
	s := x.Open()
	for range 40 {
		s.Add(Device, randomUnits(r, 1000))
	}
	got := x.Stats()
	require.LessOrEqual(t, got.Units, bound)
	require.Greater(t, got.Units, bound*9/10)
	require.Equal(t, uint64(40_000-got.Units), got.Evicted)
	require.Equal(t, got.Evicted, s.Lost())
	require.Equal(t, got.Units, s.Units())
	require.LessOrEqual(t, got.Bytes, int64(slabBytes+bound*20), "one slab and the entries")
	s.Drop()
	require.Zero(t, s.Lost(), "a new start has lost nothing")
}

func TestSetBound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 6))
	x := New(Config{MaxSetBytes: 3 * (setBytes + 100)})
	units := randomUnits(r, 200)
	streams := make([]*Stream, 24)
	for i := range streams {
		streams[i] = x.Open()
	}
	for _, u := range units { // every unit gets holders of its own
		for _, i := range r.Perm(len(streams))[:12] {
			streams[i].Add(Device, []uint64{u})
		}
	}
	got := x.Stats()
	require.Positive(t, got.Refused)
	lost := uint64(0)
	for _, s := range streams {
		lost += s.Lost()
	}
	require.Equal(t, got.Refused, lost)
	for _, s := range streams {
		s.Close()
	}
	x.Sweep()
	require.Zero(t, x.Stats().Units)
	require.Zero(t, x.sets.size())
}

// TestIDsRunOut shows that a sweep brings ids back after more drops than there are ids.
func TestIDsRunOut(t *testing.T) {
	t.Parallel()
	x := New(Config{})
	s := x.Open()
	for i := range uint64(maxIDs) {
		s.Add(Device, []uint64{i})
		s.Drop()
	}
	require.Zero(t, s.Add(Device, []uint64{1}), "no id is left")
	require.Positive(t, x.Stats().Refused)
	require.Equal(t, maxIDs, x.Sweep())
	require.Equal(t, 1, s.Add(Device, []uint64{1}))
	require.True(t, s.Holds(1))
	require.False(t, s.Holds(2))
}

func TestWordsPackIDs(t *testing.T) {
	t.Parallel()
	ids := []uint16{0, 1, 0x3fff, maxIDs - 1}
	for n := 1; n <= inlineMax; n++ {
		w := inlineWord(ids[:n])
		require.False(t, w.isSet())
		require.Equal(t, ids[:n], w.appendInline(nil))
		require.Equal(t, n-1, w.indexInline(ids[n-1]))
		require.Equal(t, notAtIndex, w.indexInline(77))
	}
	w := setWord(placeMask, ^uint32(0))
	require.True(t, w.isSet())
	require.Equal(t, uint32(placeMask), w.place())
}
