package fleet

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/learn"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/ledger"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy/load"
)

// teach settles requests at a target, prompts of 1,000 tokens that took ttft each, then a hundred tokens in tpot each.
func teach(target *Target, settles int, ttft, tpot time.Duration) {
	now := start
	for range settles {
		ticket := target.Reserve(now, 1, ledger.Booking{PromptTokens: 1000, UncachedTokens: 1000, OutputTokens: 100})
		now = now.Add(ttft)
		target.First(now, ticket)
		now = now.Add(100 * tpot)
		target.End(now, 1, ticket, load.Settle{Complete: true, CachedTokens: 0, OutputTokens: 101})
	}
}

func TestANewWorkerIsBelievedAsFastAsItsPeers(t *testing.T) {
	t.Parallel()
	b := newBench(nil)
	for _, id := range []string{"a", "b", "odd"} {
		b.fleet.Card(start, card(id, 1, "m"))
	}
	for id, ttft := range map[string]time.Duration{"a": 2 * time.Second, "b": 2100 * time.Millisecond, "odd": 20 * time.Millisecond} {
		teach(b.fleet.View().Target(id, 0), 40, ttft, 30*time.Millisecond)
	}
	b.fleet.Card(start, card("few", 1, "m"))
	teach(b.fleet.View().Target("few", 0), 2, time.Millisecond, time.Millisecond)
	b.fleet.Card(start, card("other", 1, "x"))
	belief := func(id string) learn.Coefficients {
		c, _ := b.fleet.View().Target(id, 0).Quality()
		return c
	}
	require.Equal(t, learn.Prior(), belief("other"), "another model says nothing")

	b.fleet.Card(start, card("new", 1, "m"))
	middle := func(one func(learn.Coefficients) float64) float64 {
		of := []float64{one(belief("a")), one(belief("b")), one(belief("odd"))}
		slices.Sort(of)
		return of[1]
	}
	want := learn.Coefficients{
		StepS:    middle(func(c learn.Coefficients) float64 { return c.StepS }),
		PrefillS: middle(func(c learn.Coefficients) float64 { return c.PrefillS }),
		SeqS:     middle(func(c learn.Coefficients) float64 { return c.SeqS }),
		KVS:      middle(func(c learn.Coefficients) float64 { return c.KVS }),
	}
	require.Equal(t, want, belief("new"), "without the one that has settled little")
	require.Greater(t, belief("new").PrefillS, 2*learn.Prior().PrefillS)

	b.fleet.Card(start, card("late", 1))
	require.Equal(t, learn.Prior(), belief("late"), "a worker that starts names no model")
	b.fleet.Card(start, card("late", 1, "m"))
	require.Equal(t, want, belief("late"))

	before := belief("b")
	b.fleet.Card(start, card("b", 1, "m", "adapter"))
	require.Equal(t, before, belief("b"), "what was learnt stays")
}
