package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/learn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// draw makes a random pool in a random state; about one target in eight is barred.
func draw(rng *rand.Rand) (Request, []View) {
	req := Request{
		PromptTokens: 1 + rng.IntN(60_000), OutputTokensExpected: rng.IntN(1000), Key: rng.Uint64(), Seed: rng.Uint64(),
		Priority: rng.IntN(5) - 2, NeedsLoRA: rng.IntN(4) == 0,
	}
	views := make([]View, 1+rng.IntN(40))
	for i := range views {
		hit := rng.IntN(req.PromptTokens) / 16 * 16
		views[i] = View{
			Target: i, ID: rng.Uint64(), Certainty: Certainty(rng.IntN(3)), HitTokens: hit, SlowerHit: rng.IntN(hit + 1),
			PrefillQueuedTokens: rng.IntN(50_000), PrefillBookedTokens: rng.IntN(60_000), Inflight: rng.IntN(100),
			KVTokens: rng.IntN(300_000), KVCapacityTokens: 300_000, CachedTokens: rng.IntN(300_000), KVUse: rng.Float64(),
			Waiting: rng.IntN(20), Running: rng.IntN(100), LastDispatch: rng.Uint64N(1000),
			LoRALoaded: rng.IntN(2) == 0, Coefficients: learn.Prior(),
		}
		if rng.IntN(8) == 0 {
			views[i].Bar = Bar(1 + rng.IntN(int(BarCapacity)))
		}
	}
	return req, views
}

func each(t *testing.T, check func(t *testing.T, p Policy, rng *rand.Rand)) {
	t.Helper()
	for i, name := range Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := New(name, DefaultOptions())
			require.NoError(t, err)
			require.Equal(t, name, p.Name())
			check(t, p, rand.New(rand.NewPCG(uint64(i), 7)))
		})
	}
}

func targets(p Policy, req *Request, views []View) []int {
	var r Ranking
	p.Rank(req, views, &r)
	var out []int
	for _, s := range r.Scored {
		out = append(out, s.Target)
	}
	return out
}

func TestRanksEveryEligibleTargetOnceAndNoOther(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Policy, rng *rand.Rand) {
		for range 300 {
			req, views := draw(rng)
			var want []int
			for i := range views {
				if views[i].Bar == NotBarred {
					want = append(want, i)
				}
			}
			got := targets(p, &req, views)
			slices.Sort(got)
			require.Equal(t, want, got)
		}
	})
}

func TestOrderOfViewsDoesNotMatter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Policy, rng *rand.Rand) {
		for range 300 {
			req, views := draw(rng)
			want := targets(p, &req, views)
			rng.Shuffle(len(views), func(i, j int) { views[i], views[j] = views[j], views[i] })
			require.Equal(t, want, targets(p, &req, views))
		}
	})
}

func TestRankingIsAFunctionOfItsArguments(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Policy, rng *rand.Rand) {
		var reused Ranking
		for range 200 {
			req, views := draw(rng)
			kept := slices.Clone(views)
			var fresh Ranking
			p.Rank(&req, views, &fresh)
			p.Rank(&req, views, &reused)
			require.Equal(t, fresh.Scored, append([]Scored(nil), reused.Scored...))
			require.Equal(t, kept, views, "views are only read")
		}
	})
}

func TestTermsSumToTheCostAndCostsAscend(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Policy, rng *rand.Rand) {
		for range 200 {
			req, views := draw(rng)
			var r Ranking
			p.Rank(&req, views, &r)
			require.LessOrEqual(t, len(r.Terms), MaxTerms)
			for i, s := range r.Scored {
				sum := 0.0
				for k, term := range s.Terms {
					sum += term
					require.False(t, k >= len(r.Terms) && term != 0, "term %d has no name", k)
				}
				require.InDelta(t, s.Cost, sum, 1e-9*math.Abs(s.Cost))
				require.False(t, i > 0 && r.Scored[i-1].Cost > s.Cost)
			}
		}
	})
}

// TestMoreHitsNeverHurt gives the winner more hits: policies that look at hits must still choose it.
func TestMoreHitsNeverHurt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Policy, rng *rand.Rand) {
		for range 300 {
			req, views := draw(rng)
			got := targets(p, &req, views)
			if len(got) == 0 {
				continue
			}
			v := &views[got[0]]
			v.HitTokens += (req.PromptTokens - 1 - v.HitTokens) / 2
			require.Equal(t, got[0], targets(p, &req, views)[0])
		}
	})
}

// TestLessLoadNeverHurts takes load from the winner.
func TestLessLoadNeverHurts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Policy, rng *rand.Rand) {
		for range 300 {
			req, views := draw(rng)
			got := targets(p, &req, views)
			if len(got) == 0 {
				continue
			}
			v := &views[got[0]]
			v.PrefillQueuedTokens /= 2
			v.PrefillBookedTokens /= 2
			v.KVTokens /= 2
			v.KVUse /= 2
			v.LastDispatch /= 2
			if p.Name() != "consistent-hash" {
				v.Inflight /= 2
			}
			if p.Name() == "blend" {
				v.Waiting = 0
			}
			require.Equal(t, got[0], targets(p, &req, views)[0])
		}
	})
}

func TestTiesAreDrawnEvenlyByTheSeed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Policy, rng *rand.Rand) {
		views := make([]View, 4)
		for i := range views {
			views[i] = View{Target: i, ID: uint64(i) + 100, Coefficients: learn.Prior()}
		}
		counts := make([]int, len(views))
		for range 4000 {
			seed := rng.Uint64()
			req := Request{PromptTokens: 1000, Seed: seed, Key: seed}
			counts[targets(p, &req, views)[0]]++
		}
		for _, n := range counts {
			require.InDelta(t, 1000, n, 150)
		}
	})
}

func TestPromptThatCannotFitIsNotRanked(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Policy, _ *rand.Rand) {
		req := Request{PromptTokens: 1000}
		views := []View{{Target: 7, KVCapacityTokens: 1000, HitTokens: 992}, {Target: 9, KVCapacityTokens: 1001, ID: 3}}
		require.Equal(t, []int{9}, targets(p, &req, views))
		require.Equal(t, BarCapacity, Eligible(&req, &views[0]))
		views[0].Bar = BarDraining
		require.Equal(t, BarDraining, Eligible(&req, &views[0]), "the caller's reason stands")
	})
}

func TestSessionStaysHomeUntilItCostsTooMuch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Policy, rng *rand.Rand) {
		for range 200 {
			req, views := draw(rng)
			best := targets(p, &req, views)
			if len(best) < 2 {
				continue
			}
			home := best[len(best)-1]
			views[home].SessionHome = true
			predict := NewPredictor(DefaultOptions())
			gap := predict.TTFT(&req, &views[home]) - predict.TTFT(&req, &views[best[0]])
			want := best[0]
			if gap <= DefaultOptions().SessionPatienceS {
				want = home
			}
			var r Ranking
			p.Rank(&req, views, &r)
			require.Equal(t, want, r.Scored[0].Target)
			require.Equal(t, want == home, r.Session)
		}
	})
}

func TestNamesAndErrors(t *testing.T) {
	t.Parallel()
	_, err := New("nearest", DefaultOptions())
	require.ErrorContains(t, err, `policy "nearest" is unknown`)
	require.ErrorContains(t, err, "lmetric")
	require.Contains(t, Names(), Default)
	require.Equal(t, []string{"EXACT", "DEGRADED", "FALLBACK", "UNKNOWN"},
		[]string{Exact.String(), Degraded.String(), Fallback.String(), Certainty(9).String()})
	require.Equal(t, "draining", BarDraining.String())
	require.Equal(t, "unknown", Bar(99).String())
}

func TestDecidingTermIsNamed(t *testing.T) {
	t.Parallel()
	p, err := New(Default, DefaultOptions())
	require.NoError(t, err)
	base := View{KVCapacityTokens: 300_000, Coefficients: learn.Prior()}
	at := func(change func(*View)) View {
		v := base
		v.Target, v.ID = 1, 1
		change(&v)
		return v
	}
	for _, row := range []struct {
		name string
		view View
		want string
	}{
		{"a hit", at(func(v *View) { v.HitTokens = 8000 }), "prefill"},
		{"a shorter queue", at(func(v *View) { v.PrefillQueuedTokens = -8000 }), "queue"},
		{"blocks that fit", at(func(v *View) { v.AdmitS = -3 }), "admission"},
		{"a resident adapter", at(func(v *View) { v.LoRALoaded = true }), "lora"},
		{"nothing", at(func(*View) {}), "tie"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			other := base
			other.ID = 2
			req := Request{PromptTokens: 9000, NeedsLoRA: true}
			var r Ranking
			p.Rank(&req, []View{other, row.view}, &r)
			got, gain := r.Deciding()
			require.Equal(t, row.want, got)
			require.Equal(t, row.want == "tie", gain == 0)
			_, ok := r.Best()
			require.True(t, ok)
		})
	}
	var r Ranking
	p.Rank(&Request{PromptTokens: 9}, []View{base}, &r)
	got, _ := r.Deciding()
	require.Equal(t, "only", got)
	p.Rank(&Request{PromptTokens: 9}, []View{{Bar: BarHealth}}, &r)
	_, ok := r.Best()
	require.False(t, ok)
	p.Rank(&Request{PromptTokens: 9}, []View{base, {ID: 5, SessionHome: true, Coefficients: learn.Prior()}}, &r)
	got, _ = r.Deciding()
	require.Equal(t, "session", got)
}

// cpu is the processor time the process has used; on a busy machine elapsed time says little.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkRank(b *testing.B) {
	for _, name := range Names() {
		for _, size := range []int{16, 96} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				p, err := New(name, DefaultOptions())
				require.NoError(b, err)
				req := Request{PromptTokens: 8192, Seed: 1}
				views := make([]View, size)
				for i := range views {
					views[i] = View{
						Target: i, ID: mix(uint64(i)), HitTokens: i * 16, Inflight: i % 7, KVTokens: i * 100, KVUse: 0.5,
						PrefillQueuedTokens: (i * 997) % 5000, KVCapacityTokens: 300_000, Coefficients: learn.Prior(),
					}
				}
				var r Ranking
				b.ReportAllocs()
				start := cpu(b)
				for b.Loop() {
					p.Rank(&req, views, &r)
				}
				b.ReportMetric(float64(cpu(b)-start)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

func TestRankDoesNotAllocate(t *testing.T) {
	for _, name := range Names() {
		p, err := New(name, DefaultOptions())
		require.NoError(t, err)
		rng := rand.New(rand.NewPCG(1, 1))
		req, views := draw(rng)
		var r Ranking
		p.Rank(&req, views, &r)
		require.Zero(t, testing.AllocsPerRun(20, func() { p.Rank(&req, views, &r) }), name)
	}
}
