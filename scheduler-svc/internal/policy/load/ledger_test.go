package load

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/learn"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fill returns the view of a request of the given length after a hit.
func fill(l *Ledger, now time.Duration, prompt, hit, capacity int) policy.View {
	v := policy.View{HitTokens: hit, KVCapacityTokens: capacity}
	l.Fill(now, prompt, &v)
	return v
}

// naive keeps the same book in a map.
type naive map[Ticket]*naiveEntry

type naiveEntry struct {
	Entry
	prefilled bool
}

func (n naive) sums() (queued, inflight, tokens int) {
	for _, e := range n {
		if !e.prefilled {
			queued += e.UncachedTokens
		}
		inflight++
		tokens += e.PromptTokens + e.OutputTokens
	}
	return queued, inflight, tokens
}

// TestBookEqualsANaiveModel compares the sums after random operations, with repeated and unknown tickets.
func TestBookEqualsANaiveModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l, n := New(learn.Prior()), naive{}
		var tickets []Ticket
		now := time.Duration(0)
		for range 2000 {
			now += time.Duration(rng.IntN(50)) * time.Millisecond
			switch op := rng.IntN(5); {
			case op < 2 || len(tickets) == 0:
				prompt := 1 + rng.IntN(20_000)
				e := Entry{PromptTokens: prompt, UncachedTokens: 1 + rng.IntN(prompt), OutputTokens: rng.IntN(500)}
				ticket := l.Dispatch(now, e)
				require.NotContains(t, n, ticket)
				n[ticket] = &naiveEntry{Entry: e}
				tickets = append(tickets, ticket)
			case op == 2:
				ticket := tickets[rng.IntN(len(tickets))]
				l.First(now, ticket)
				if e := n[ticket]; e != nil {
					e.prefilled = true
				}
			default:
				ticket := tickets[rng.IntN(len(tickets))]
				l.End(now, ticket, Settle{CachedTokens: Unknown, OutputTokens: rng.IntN(500), Complete: rng.IntN(2) == 0})
				delete(n, ticket)
			}
			queued, inflight, tokens := n.sums()
			v := fill(l, now, 1000, 0, 300_000)
			require.Equal(t, queued, v.PrefillBookedTokens)
			require.Equal(t, inflight, v.Inflight)
			require.Equal(t, inflight, l.Inflight())
			require.Equal(t, tokens, v.KVTokens)
			require.LessOrEqual(t, v.PrefillQueuedTokens, queued)
			require.GreaterOrEqual(t, v.PrefillQueuedTokens, 0)
			require.GreaterOrEqual(t, v.AdmitS, 0.0)
		}
		for _, ticket := range tickets {
			l.End(now, ticket, Settle{CachedTokens: Unknown})
		}
		v := fill(l, now, 1000, 0, 300_000)
		require.Zero(t, v.PrefillBookedTokens+v.Inflight+v.KVTokens+l.resident+l.decoding+l.decodingTokens)
		require.Less(t, len(l.entries), 100, "ended entries are compacted")
	}
}

func TestProgressOfTheHead(t *testing.T) {
	t.Parallel()
	l := New(learn.Prior())
	rate := learn.Prior().PrefillRate(0, 0)
	a := l.Dispatch(0, Entry{PromptTokens: 10_000, UncachedTokens: 10_000})
	b := l.Dispatch(0, Entry{PromptTokens: 6000, UncachedTokens: 6000})
	require.Equal(t, 16_000, l.Queued(0))
	require.InDelta(t, 16_000-0.2*rate, l.Queued(200*time.Millisecond), 2)
	require.Equal(t, 6001, l.Queued(time.Hour), "the head is not done before its first token")
	l.First(500*time.Millisecond, a)
	require.Equal(t, 6000, l.Queued(500*time.Millisecond), "the next head starts at nothing")
	require.Less(t, l.Queued(600*time.Millisecond), 6000)
	l.First(800*time.Millisecond, b)
	require.Zero(t, l.Queued(time.Hour))
	l.First(time.Second, b)
	require.Zero(t, l.Queued(time.Hour))
}

func TestAnEndOutOfTurnLeavesTheHeadsProgress(t *testing.T) {
	t.Parallel()
	l := New(learn.Prior())
	l.Dispatch(0, Entry{PromptTokens: 10_000, UncachedTokens: 10_000})
	b := l.Dispatch(0, Entry{PromptTokens: 6000, UncachedTokens: 6000})
	before := l.Queued(200 * time.Millisecond)
	l.End(200*time.Millisecond, b, Settle{CachedTokens: Unknown})
	require.InDelta(t, before-6000, l.Queued(200*time.Millisecond), 1)
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	const capacity = 100_000
	l := New(learn.Prior())
	require.Zero(t, fill(l, 0, 50_000, 0, capacity).AdmitS, "nothing is known before a report")
	ticket := l.Dispatch(0, Entry{PromptTokens: 60_000, UncachedTokens: 60_000, OutputTokens: 100})
	l.First(2*time.Second, ticket)
	l.Report(3*time.Second, 0.6, 0, 1)
	require.Zero(t, fill(l, 3*time.Second, 30_000, 0, capacity).AdmitS, "it fits")
	require.Zero(t, fill(l, 3*time.Second, 80_000, 60_000, capacity).AdmitS, "what is cached needs no room")
	require.Zero(t, fill(l, 3*time.Second, 80_000, 0, 0).AdmitS, "unknown size")
	long := fill(l, 3*time.Second, 80_000, 0, capacity).AdmitS
	require.Greater(t, long, fill(l, 3*time.Second, 50_000, 0, capacity).AdmitS)
	require.LessOrEqual(t, long, maxAdmitS)

	l.Dispatch(4*time.Second, Entry{PromptTokens: 39_000, UncachedTokens: 39_000})
	require.Positive(t, fill(l, 4*time.Second, 30_000, 0, capacity).AdmitS, "what was sent since the report comes first")
	l.Report(5*time.Second, 0.6, 1, 1)
	at := fill(l, 5*time.Second, 30_000, 0, capacity).AdmitS
	require.Positive(t, at, "a reported waiter holds nothing yet")
	require.InDelta(t, at+7, fill(l, 12*time.Second, 30_000, 0, capacity).AdmitS, 1e-9, "the head's age counts")
	l.Report(13*time.Second, 0.99, 0, 2)
	require.Zero(t, fill(l, 13*time.Second, 100, 0, capacity).AdmitS)
}

func TestLearnsFromCompleteRequestsOnly(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		settle Settle
		first  bool
		admit  float64
		want   learn.Quality
	}{
		{"complete", Settle{CachedTokens: 0, OutputTokens: 100, Complete: true}, true, 0, learn.Quality{PrefillSamples: 1, DecodeSamples: 1}},
		{"cut off", Settle{CachedTokens: 0, OutputTokens: 100}, true, 0, learn.Quality{}},
		{"no first token", Settle{CachedTokens: 0, OutputTokens: 100, Complete: true}, false, 0, learn.Quality{}},
		{"short answer", Settle{CachedTokens: Unknown, OutputTokens: 5, Complete: true}, true, 0, learn.Quality{PrefillSamples: 1}},
		{"waited for cache", Settle{CachedTokens: 0, OutputTokens: 100, Complete: true}, true, 1, learn.Quality{DecodeSamples: 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l := New(learn.Prior())
			ticket := l.Dispatch(0, Entry{PromptTokens: 20_000, UncachedTokens: 20_000, OutputTokens: 50, AdmitS: row.admit})
			if row.first {
				l.First(time.Second, ticket)
			}
			l.End(4*time.Second, ticket, row.settle)
			q := l.Model().Quality()
			require.Equal(t, row.want.PrefillSamples, q.PrefillSamples)
			require.Equal(t, row.want.DecodeSamples, q.DecodeSamples)
		})
	}
}

// TestWorkersCountCorrectsThePrediction: the worker cached more than predicted, so the same time means a slower prefill.
func TestWorkersCountCorrectsThePrediction(t *testing.T) {
	t.Parallel()
	teach := func(cached int) float64 {
		l := New(learn.Prior())
		for i := range 20 {
			at := time.Duration(i) * 10 * time.Second
			ticket := l.Dispatch(at, Entry{PromptTokens: 20_000, UncachedTokens: 20_000})
			l.First(at+time.Second, ticket)
			l.End(at+4*time.Second, ticket, Settle{CachedTokens: cached, OutputTokens: 100, Complete: true})
		}
		return l.Model().Coefficients().PrefillS
	}
	require.InEpsilon(t, teach(0), teach(Unknown), 1e-9)
	require.Greater(t, teach(10_000), 1.5*teach(0))
}

func TestRequestsThatWaitedForRoomDoNotTeachPrefill(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		kvUse   float64
		waiting int
		want    int
	}{
		{"full cache, waiting", 0.97, 2, 0},
		{"full cache, nobody waits", 0.97, 0, 1},
		{"room left", 0.5, 2, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l := New(learn.Prior())
			ticket := l.Dispatch(0, Entry{PromptTokens: 20_000, UncachedTokens: 20_000})
			l.Report(time.Second, row.kvUse, row.waiting, 9)
			l.First(2*time.Second, ticket)
			l.End(4*time.Second, ticket, Settle{CachedTokens: 0, OutputTokens: 100, Complete: true})
			require.Equal(t, row.want, l.Model().Quality().PrefillSamples)
		})
	}
}

func TestReportIsShown(t *testing.T) {
	t.Parallel()
	l := New(learn.Prior())
	l.Report(0, 0.25, 3, 9)
	v := fill(l, 0, 100, 0, 1000)
	require.Equal(t, []any{0.25, 3, 9}, []any{v.KVUse, v.Waiting, v.Running})
	require.Equal(t, learn.Prior(), v.Coefficients)
}

func TestRate(t *testing.T) {
	t.Parallel()
	var r Rate
	require.Zero(t, r.PerS(time.Hour))
	start := 100 * time.Second
	for i := range 100 {
		r.Add(start + time.Duration(i)*100*time.Millisecond)
	}
	require.InDelta(t, 10, r.PerS(start+10*time.Second), 0.2)
	for i := range 600 {
		r.Add(start + 10*time.Second + time.Duration(i)*100*time.Millisecond)
	}
	require.InDelta(t, 10, r.PerS(start+70*time.Second), 0.7, "a steady rate stays")
	r.Add(start + time.Hour)
	require.Less(t, r.PerS(start+time.Hour), 2.0, "old buckets are forgotten")
}

func BenchmarkFill(b *testing.B) {
	l := New(learn.Prior())
	for i := range 200 {
		ticket := l.Dispatch(time.Duration(i), Entry{PromptTokens: 8000, UncachedTokens: 4000, OutputTokens: 300})
		if i < 190 {
			l.First(time.Duration(i), ticket)
		}
	}
	l.Report(time.Second, 0.9, 5, 195)
	b.ReportAllocs()
	for b.Loop() {
		fill(l, 2*time.Second, 8000, 4000, 300_000)
	}
}
