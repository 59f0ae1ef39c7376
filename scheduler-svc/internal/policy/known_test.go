package policy

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/learn"
)

// pool builds views with ids from 1; change sets what the row is about.
func pool(n int, change func(i int, v *View)) []View {
	views := make([]View, n)
	for i := range views {
		views[i] = View{
			Target: i, ID: uint64(i) + 1, KVCapacityTokens: 300_000, CachedTokens: 300_000, Coefficients: learn.Prior(),
		}
		change(i, &views[i])
	}
	return views
}

func TestWhatEachPolicyPrefers(t *testing.T) {
	t.Parallel()
	req := Request{PromptTokens: 8000, Seed: 3, Key: 9}
	for _, row := range []struct {
		name, policy string
		views        []View
		want         int
	}{
		{"a turn for each", "round-robin", pool(3, func(i int, v *View) { v.LastDispatch = uint64(9 - i) }), 2},
		{"fewest requests", "least-requests", pool(3, func(i int, v *View) { v.Inflight = []int{3, 1, 2}[i] }), 1},
		{"a twentieth of the KV tokens counts", "least-tokens", pool(2, func(i int, v *View) {
			v.PrefillBookedTokens, v.KVTokens = []int{1000, 0}[i], []int{0, 19_000}[i]
		}), 1},
		{"progress is not published load", "lmetric", pool(2, func(i int, v *View) {
			v.PrefillBookedTokens, v.PrefillQueuedTokens = []int{500, 0}[i], []int{0, 5000}[i]
		}), 1},
		{"the longest hit whatever the load", "longest-prefix", pool(2, func(i int, v *View) {
			v.HitTokens, v.PrefillQueuedTokens = i*16, i*1_000_000
		}), 1},
		{"blend: matches outweigh one other term", "blend", pool(2, func(i int, v *View) {
			v.HitTokens, v.KVUse = i*7984, float64(i)*0.9
		}), 1},
		{"blend: queue and cache together outweigh half a match", "blend", pool(2, func(i int, v *View) {
			v.HitTokens, v.KVUse, v.Waiting = i*4000, float64(i)*0.9, i
		}), 0},
		{"sticky: a warm target within tau", "sticky", pool(2, func(i int, v *View) {
			v.HitTokens, v.PrefillBookedTokens = i*7000, i*200_000
		}), 1},
		{"sticky: beyond tau a cold one joins", "sticky", pool(2, func(i int, v *View) {
			v.HitTokens, v.PrefillBookedTokens = i*7000, i*300_000
		}), 0},
		{"sticky: below the match nobody is warm", "sticky", pool(2, func(i int, v *View) {
			v.HitTokens, v.PrefillBookedTokens = i*6000, i*7000
		}), 0},
		{"lmetric: hits against requests", "lmetric", pool(2, func(i int, v *View) {
			v.HitTokens, v.Inflight = i*7000, i*6
		}), 1},
		{"predicted: the earlier first token", "predicted-ttft", pool(2, func(i int, v *View) {
			v.HitTokens, v.PrefillQueuedTokens = i*4000, i*5000
		}), 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p, err := New(row.policy, DefaultOptions())
			require.NoError(t, err)
			require.Equal(t, row.want, targets(p, &req, row.views)[0])
		})
	}
}

func TestDefaultCost(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		req   Request
		views []View
		want  int
	}{
		{"idle pool: a short queue is worth a few tokens of hit", Request{PromptTokens: 8000}, pool(2, func(i int, v *View) {
			v.HitTokens, v.PrefillQueuedTokens, v.CachedTokens = i*512, i*4000, 0
		}), 0},
		{"busy pool: the same hit decides", Request{PromptTokens: 8000}, pool(2, func(i int, v *View) {
			v.HitTokens, v.PrefillQueuedTokens, v.Inflight = i*512, i*4000, 100
		}), 1},
		{"an urgent request takes the shorter queue", Request{PromptTokens: 8000, Priority: 3}, pool(2, func(i int, v *View) {
			v.HitTokens, v.PrefillQueuedTokens, v.Inflight = i*2048, i*4000, 10
		}), 0},
		{"a patient one takes the hit", Request{PromptTokens: 8000, Priority: -3}, pool(2, func(i int, v *View) {
			v.HitTokens, v.PrefillQueuedTokens, v.Inflight = i*2048, i*4000, 10
		}), 1},
		{"a full hit that cannot be admitted is not free", Request{PromptTokens: 8000}, pool(2, func(i int, v *View) {
			v.HitTokens, v.AdmitS = i*7984, float64(i)*5
		}), 0},
		{"all wait for blocks: the hit decides", Request{PromptTokens: 8000}, pool(2, func(i int, v *View) {
			v.HitTokens, v.AdmitS, v.Inflight = i*7984, 20+float64(i)*2, 20
		}), 1},
		{"a hit of doubtful certainty counts half", Request{PromptTokens: 8000}, pool(2, func(i int, v *View) {
			v.HitTokens, v.Certainty = []int{5008, 8000}[i], []Certainty{Exact, Degraded}[i]
		}), 0},
		{"a hit in a slower tier counts less", Request{PromptTokens: 8000}, pool(2, func(i int, v *View) {
			v.HitTokens, v.SlowerHit = 4000, []int{0, 4000}[i]
		}), 0},
		{"the faster worker", Request{PromptTokens: 8000}, pool(2, func(i int, v *View) {
			v.Coefficients.PrefillS *= []float64{2, 1}[i]
		}), 1},
		{"a fast worker with a queue equals a slow one without", Request{PromptTokens: 8000}, pool(2, func(i int, v *View) {
			v.Coefficients.PrefillS *= []float64{3, 1}[i]
			v.PrefillQueuedTokens = []int{0, 8000}[i]
		}), 1},
		{"the resident adapter", Request{PromptTokens: 8000, NeedsLoRA: true}, pool(2, func(i int, v *View) {
			v.LoRALoaded, v.PrefillQueuedTokens = i == 1, i*2000
		}), 1},
		{"an emptier cache", Request{PromptTokens: 8000}, pool(2, func(i int, v *View) { v.KVUse = []float64{0.9, 0.2}[i] }), 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p, err := New(Default, DefaultOptions())
			require.NoError(t, err)
			require.Equal(t, row.want, targets(p, &row.req, row.views)[0])
		})
	}
}

// TestEvictionIsFreeWhileThereIsRoom: a copy costs others nothing but time before the caches are full.
func TestEvictionIsFreeWhileThereIsRoom(t *testing.T) {
	t.Parallel()
	p, err := New(Default, DefaultOptions())
	require.NoError(t, err)
	term := func(cached, capacity int) float64 {
		var r Ranking
		p.Rank(&Request{PromptTokens: 8000}, pool(2, func(i int, v *View) {
			v.HitTokens, v.CachedTokens, v.KVCapacityTokens = i*4000, cached, capacity
		}), &r)
		return r.Scored[1].Terms[3]
	}
	require.Zero(t, term(100_000, 300_000))
	require.Greater(t, term(200_000, 300_000), 0.0)
	require.Greater(t, term(240_000, 300_000), term(200_000, 300_000))
	require.InDelta(t, term(300_000, 300_000), term(240_000, 300_000), 1e-12)
	require.InDelta(t, term(300_000, 300_000), term(0, 0), 1e-12, "an unknown size counts as full")
}

// TestWithoutReuseBalanceAloneDecides: with equal hits the terms that price them are zero for every target.
func TestWithoutReuseBalanceAloneDecides(t *testing.T) {
	t.Parallel()
	p, err := New(Default, DefaultOptions())
	require.NoError(t, err)
	var r Ranking
	p.Rank(&Request{PromptTokens: 8000}, pool(8, func(i int, v *View) { v.Inflight, v.HitTokens = i*10, 2048 }), &r)
	for _, s := range r.Scored {
		require.Zero(t, s.Terms[2])
		require.Zero(t, s.Terms[3])
	}
}

func TestConsistentHash(t *testing.T) {
	t.Parallel()
	p, err := New("consistent-hash", DefaultOptions())
	require.NoError(t, err)
	views := pool(8, func(int, *View) {})
	first := map[uint64]int{}
	counts := make([]int, len(views))
	for key := range uint64(4000) {
		first[key] = targets(p, &Request{PromptTokens: 10, Key: mix(key), Seed: key}, views)[0]
		counts[first[key]]++
	}
	for _, n := range counts {
		require.InDelta(t, 500, n, 100)
	}
	fewer := views[:7]
	for key, was := range first {
		if was != 7 {
			require.Equal(t, was, targets(p, &Request{PromptTokens: 10, Key: mix(key)}, fewer)[0], "only the lost target's keys move")
		}
	}
	views[first[1]].Inflight = 10
	require.NotEqual(t, first[1], targets(p, &Request{PromptTokens: 10, Key: mix(1)}, views)[0], "above the bound the next one serves")
}

func TestPowerOfTwoTakesTheLowerOfTwo(t *testing.T) {
	t.Parallel()
	p, err := New("power-of-two", DefaultOptions())
	require.NoError(t, err)
	views := pool(8, func(i int, v *View) { v.PrefillBookedTokens = i * 100 })
	counts := make([]int, len(views))
	for seed := range uint64(8000) {
		counts[targets(p, &Request{PromptTokens: 10, Seed: mix(seed)}, views)[0]]++
	}
	for i := range counts[1:] {
		require.Greater(t, counts[i], counts[i+1], "the chance falls with the load")
	}
	require.Zero(t, counts[7], "the highest load never wins a pair")
}

func TestPredictor(t *testing.T) {
	t.Parallel()
	predict := NewPredictor(DefaultOptions())
	v := pool(1, func(_ int, v *View) { v.HitTokens = 4000 })[0]
	req := Request{PromptTokens: 8000}
	require.Equal(t, 4000, predict.Uncached(&req, &v))
	idle := predict.TTFT(&req, &v)
	require.InDelta(t, 4000/22_500.0+0.0102, idle, 1e-9)
	v.PrefillQueuedTokens = 4000
	require.InDelta(t, idle+4000/22_500.0, predict.TTFT(&req, &v), 1e-9)
	v.AdmitS = 2
	require.InDelta(t, idle+4000/22_500.0+2, predict.TTFT(&req, &v), 1e-9)
	v.HitTokens = 8000
	require.Equal(t, 1, predict.Uncached(&req, &v), "the last token is always computed")
	v.Certainty = Fallback
	require.Equal(t, 2400, predict.Uncached(&req, &v))
	require.False(t, math.IsNaN(predict.TTFT(&req, &View{})))
}
