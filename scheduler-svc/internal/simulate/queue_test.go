package simulate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQueueEqualsASlice under random pushes at both ends and pops.
func TestQueueEqualsASlice(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 4))
	var q queue
	var want []*sequence
	for id := range 20_000 {
		s := &sequence{id: id}
		switch op := rng.IntN(10); {
		case op < 5:
			q.push(s)
			want = append(want, s)
		case op < 6:
			q.pushFront(s)
			want = slices.Insert(want, 0, s)
		case len(want) > 0:
			require.Same(t, want[0], q.peek())
			require.Same(t, want[0], q.pop())
			want = want[1:]
		}
		require.Equal(t, len(want), q.len())
	}
}

// TestFinishesComeInOrder against a sorted slice, with removals.
func TestFinishesComeInOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 4))
	var f finishes
	var want []finishing
	for id := range 5000 {
		s := &sequence{id: id}
		step := rng.Int64N(300)
		f.push(step, s)
		want = append(want, finishing{step, s})
		if rng.IntN(4) == 0 {
			i := rng.IntN(len(want))
			f.remove(want[i].seq)
			want = slices.Delete(want, i, i+1)
		}
	}
	f.remove(&sequence{})
	slices.SortFunc(want, func(a, b finishing) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	require.Nil(t, f.due(-1))
	for _, x := range want {
		require.Nil(t, f.due(x.step-1))
		require.Same(t, x.seq, f.due(x.step))
	}
	require.Nil(t, f.due(1<<40))
}

// naiveLRU replays the workload through a slice, newest last.
func naiveLRU(w *Workload, units int) float64 {
	var cache []uint32
	hit, prompt := 0, 0
	for _, a := range w.Stages[0].Arrivals {
		n := 0
		for n < len(a.Units) && slices.Contains(cache, a.Units[n]) {
			n++
		}
		for _, u := range slices.Backward(a.Units) {
			if i := slices.Index(cache, u); i >= 0 {
				cache = slices.Delete(cache, i, i+1)
			}
			cache = append(cache, u)
			if len(cache) > units {
				cache = cache[1:]
			}
		}
		hit += min(n*w.UnitTokens, a.Prompt-1)
		prompt += a.Prompt
	}
	return float64(hit) / float64(prompt)
}

func TestPooledLRUEqualsANaiveOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 6))
		const families, depth, unit = 8, 10, 16
		w := &Workload{UnitTokens: unit, Distinct: families * depth, Stages: make([]Stage, 1)}
		for range 400 {
			a := Arrival{Prompt: 1 + rng.IntN(depth*unit)}
			base := uint32(rng.IntN(families)) * depth
			for i := range uint32(a.Prompt / unit) {
				a.Units = append(a.Units, base+i)
			}
			w.Stages[0].Arrivals = append(w.Stages[0].Arrivals, a)
		}
		for _, units := range []int{1, 7, 20, 45, families * depth} {
			require.InDelta(t, naiveLRU(w, units), PooledLRU(w, units*unit), 1e-12, "seed %d, %d units", seed, units)
		}
	}
}
