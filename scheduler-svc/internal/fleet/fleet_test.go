package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/breaker"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/feed"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/ledger"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy/load"
)

var start = time.Unix(3000, 0)

type bench struct {
	fleet   *Fleet
	machine *feed.Machine
	asks    []feed.Ask
}

func newBench(change func(*Config)) *bench {
	b := &bench{}
	b.machine = feed.New(index.New(index.Config{}), feed.DefaultLimits(), feed.Hooks{
		Ask: func(a feed.Ask) { b.asks = append(b.asks, a) }, Counts: &feed.Counts{},
	})
	cfg := Config{
		Breaker: breaker.Config{Failures: 3, OpenMin: time.Second, OpenMax: time.Second}, LateAfter: 5 * time.Second,
		BusyHold: time.Second, ExpectTTL: time.Minute, MaxWorkers: 100,
	}
	if change != nil {
		change(&cfg)
	}
	b.fleet = New(cfg, b.machine, start)
	return b
}

func card(id string, ranks uint32, models ...string) *workerv1.WorkerCard {
	c := &workerv1.WorkerCard{
		WorkerId: id, Ranks: ranks, State: workerv1.WorkerState_WORKER_STATE_READY, AdapterAddress: "mem://" + id,
		EventState: workerv1.EventState_EVENT_STATE_LIVE, BlockTokens: 16, GpuBlocks: 100, MaxSequences: 4,
	}
	for _, m := range models {
		c.Models = append(c.Models, &workerv1.ServedModel{Id: m})
	}
	return c
}

// snapshot answers the stream's ask with nothing held.
func (b *bench) snapshot(worker string) {
	for _, a := range b.asks {
		if a.Key.Worker == worker {
			b.machine.Snapshot(start, a, feed.Answer{Epoch: 1})
		}
	}
}

func keys(ts []*Target) []string {
	var out []string
	for _, t := range ts {
		out = append(out, fmt.Sprintf("%s/%d", t.Key.Worker, t.Key.Rank))
	}
	return out
}

func TestPoolsFollowTheCards(t *testing.T) {
	t.Parallel()
	b := newBench(nil)
	require.True(t, b.fleet.Card(start, card("w2", 1, "m", "x")))
	require.True(t, b.fleet.Card(start, card("w1", 2, "m", "m")))
	require.False(t, b.fleet.Card(start, card("w1", 2, "m", "m")), "renewed")
	v := b.fleet.View()
	require.Equal(t, []string{"w1/0", "w1/1", "w2/0"}, keys(v.Targets))
	require.Equal(t, []string{"w1/0", "w1/1", "w2/0"}, keys(v.Pools["m"].Targets), "a model named twice counts once")
	require.Equal(t, []string{"w2/0"}, keys(v.Pools["x"].Targets))
	require.Equal(t, []string{"m", "x"}, v.Models())
	require.Equal(t, "w1", v.Target("w1", 1).Key.Worker)
	require.Nil(t, v.Target("w1", 2))
	require.Len(t, b.asks, 3, "one snapshot per rank")

	b.fleet.Card(start, card("w1", 1, "m"))
	require.Equal(t, []string{"w1/0", "w2/0"}, keys(b.fleet.View().Pools["m"].Targets))
	require.True(t, b.fleet.Gone("w2"))
	require.False(t, b.fleet.Gone("w2"))
	v = b.fleet.View()
	require.Equal(t, []string{"m"}, v.Models())
	require.True(t, v.Past("x"))
	require.False(t, v.Past("m"))
	b.fleet.Card(start, card("w3", 1, "x"))
	require.False(t, b.fleet.View().Past("x"))
}

// TestAnUnloadedAdapterIsUnknown, one whose worker is away is not: a client is told 404 or 503.
func TestAnUnloadedAdapterIsUnknown(t *testing.T) {
	t.Parallel()
	adapter := func(state workerv1.WorkerState, models ...string) *workerv1.WorkerCard {
		c := card("w", 1, models...)
		c.State = state
		for _, m := range c.Models[1:] {
			m.Parent = "m"
		}
		return c
	}
	const ready, starting = workerv1.WorkerState_WORKER_STATE_READY, workerv1.WorkerState_WORKER_STATE_STARTING
	for name, row := range map[string]struct {
		next []*workerv1.WorkerCard
		past bool
	}{
		"unloaded":                   {[]*workerv1.WorkerCard{adapter(ready, "m")}, false},
		"restarted without it":       {[]*workerv1.WorkerCard{adapter(starting, "m"), adapter(ready, "m")}, true},
		"its worker starts":          {[]*workerv1.WorkerCard{adapter(starting, "m")}, true},
		"its worker has left":        {nil, true},
		"unloaded, then loaded anew": {[]*workerv1.WorkerCard{adapter(ready, "m"), adapter(ready, "m", "a")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(nil)
			b.fleet.Card(start, adapter(ready, "m", "a"))
			for _, c := range row.next {
				b.fleet.Card(start, c)
			}
			if row.next == nil {
				b.fleet.Gone("w")
			}
			require.Equal(t, row.past, b.fleet.View().Past("a"))
		})
	}
}

// TestStalled: what stands at a worker that does not answer, or sleeps, is given up; a pause lets run what runs.
func TestStalled(t *testing.T) {
	t.Parallel()
	const ready, starting, draining, asleep, sick = workerv1.WorkerState_WORKER_STATE_READY,
		workerv1.WorkerState_WORKER_STATE_STARTING, workerv1.WorkerState_WORKER_STATE_DRAINING,
		workerv1.WorkerState_WORKER_STATE_ASLEEP, workerv1.WorkerState_WORKER_STATE_SICK
	rows := []struct {
		name    string
		state   workerv1.WorkerState
		running []uint32
		stalled bool
	}{
		{"ready and idle", ready, []uint32{0, 0}, false},
		{"starting", starting, nil, false},
		{"draining", draining, []uint32{0, 0}, false},
		{"sick with old numbers", sick, []uint32{3, 0}, true},
		{"asleep", asleep, []uint32{0, 0}, true},
		{"asleep, numbers unknown", asleep, nil, true},
		{"paused, the second rank runs on", asleep, []uint32{0, 1}, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(nil)
			c := card("w", 2, "m")
			c.State = row.state
			for _, n := range row.running {
				c.Loads = append(c.Loads, &workerv1.RankLoad{Running: n, Waiting: 1})
			}
			b.fleet.Card(start, c)
			if row.stalled {
				require.Equal(t, []string{"w"}, b.fleet.View().Stalled(), "once, with its two ranks")
				return
			}
			require.Empty(t, b.fleet.View().Stalled())
		})
	}
}

func TestTargetsKeepTheirBooksOverRenewals(t *testing.T) {
	t.Parallel()
	b := newBench(nil)
	b.fleet.Card(start, card("w", 1, "m"))
	target := b.fleet.View().Targets[0]
	ticket := target.Reserve(start, 1, ledger.Booking{PromptTokens: 50, UncachedTokens: 30, OutputTokens: 5})
	next := card("w", 1, "m", "lora")
	next.Loads = []*workerv1.RankLoad{{Running: 3, Waiting: 2, KvUse: 0.25, AgeMs: 100}}
	b.fleet.Card(start.Add(time.Second), next)
	require.Same(t, target, b.fleet.View().Pools["lora"].Targets[0])
	var v policy.View
	target.Fill(start, 50, &v)
	require.Equal(t, 1, v.Inflight)
	require.Equal(t, 30, v.PrefillQueuedTokens)
	require.Equal(t, 55, v.KVTokens)
	require.Equal(t, 2, v.Waiting)
	require.InDelta(t, 0.25, v.KVUse, 0)
	require.Equal(t, 1600, v.KVCapacityTokens)
	require.Equal(t, uint64(1), v.LastDispatch)
	target.First(start, ticket)
	requests, queued := target.Inflight(start)
	require.Equal(t, 1, requests)
	require.Zero(t, queued)
	target.End(start, 1, ticket, load.Settle{CachedTokens: load.Unknown})
	requests, _ = target.Inflight(start)
	require.Zero(t, requests)
}

func TestFull(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name      string
		limit     int
		sequences uint32
		want      int
	}{
		{"configured", 3, 100, 3},
		{"by the worker's sequences", 0, 4, 6},
		{"a small worker", 0, 1, 2},
		{"unknown", 0, 0, unknownSequences},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(func(c *Config) { c.MaxInflight = row.limit })
			c := card("w", 1, "m")
			c.MaxSequences = row.sequences
			b.fleet.Card(start, c)
			target := b.fleet.View().Targets[0]
			for i := range row.want {
				require.False(t, target.Full(start), "%d in flight", i)
				target.Reserve(start, uint64(i+1), ledger.Booking{PromptTokens: 1, UncachedTokens: 1})
			}
			require.True(t, target.Full(start))
		})
	}
}

// TestBusyIsCapacityForAMoment: a 429 keeps requests away and is no failure (ROUTE-08).
func TestBusyIsCapacityForAMoment(t *testing.T) {
	t.Parallel()
	b := newBench(nil)
	b.fleet.Card(start, card("w", 1, "m"))
	target := b.fleet.View().Targets[0]
	target.Busy(start)
	require.True(t, target.Full(start.Add(999*time.Millisecond)))
	require.False(t, target.Full(start.Add(time.Second)))
	require.Equal(t, breaker.Closed, target.Breaker.State(start))
}

func TestFleetIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(func(c *Config) { c.MaxWorkers = 2 })
	for i := range 5 {
		b.fleet.Card(start, card(fmt.Sprint("w", i), 1, "m"))
	}
	require.Len(t, b.fleet.View().Targets, 2)
	b.fleet.Card(start, card("w0", 100_000, "m"))
	require.Len(t, b.fleet.View().Targets, maxRanks+1)
}

func TestCertainty(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		event  workerv1.EventState
		before func(*bench, *Target)
		after  time.Duration
		want   policy.Certainty
		why    string
	}{
		{"no snapshot yet", workerv1.EventState_EVENT_STATE_LIVE, nil, 0, policy.Degraded, "no snapshot yet"},
		{"live", workerv1.EventState_EVENT_STATE_LIVE, live, 0, policy.Exact, ""},
		{"late", workerv1.EventState_EVENT_STATE_LIVE, live, 6 * time.Second, policy.Degraded, "events late"},
		{"gap", workerv1.EventState_EVENT_STATE_LIVE, gap, 0, policy.Degraded, "gap"},
		{"drift", workerv1.EventState_EVENT_STATE_LIVE, drift, 0, policy.Degraded, "drift"},
		{"worker's own gap", workerv1.EventState_EVENT_STATE_CATCHING_UP, live, 0, policy.Degraded, "worker gap"},
		{"hybrid", workerv1.EventState_EVENT_STATE_HYBRID, live, 0, policy.Degraded, "hybrid cache"},
		{"off", workerv1.EventState_EVENT_STATE_OFF, live, 0, policy.Fallback, "events off"},
		{"silent", workerv1.EventState_EVENT_STATE_SILENT, live, 0, policy.Fallback, "events silent"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(nil)
			c := card("w", 1, "m")
			c.EventState = row.event
			b.fleet.Card(start, c)
			target := b.fleet.View().Targets[0]
			if row.before != nil {
				row.before(b, target)
			}
			got, why := target.Certainty(start.Add(row.after))
			require.Equal(t, row.want, got)
			require.Equal(t, row.why, why)
		})
	}
}

// TestAReturnedWorkerIsProbedAtOnce checks that a breaker that the dead worker opened does not hold up the new one.
func TestAReturnedWorkerIsProbedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(nil)
	states := []workerv1.WorkerState{
		workerv1.WorkerState_WORKER_STATE_READY, workerv1.WorkerState_WORKER_STATE_STARTING,
		workerv1.WorkerState_WORKER_STATE_READY,
	}
	for i, state := range states {
		c := card("w", 1, "m")
		c.State = state
		b.fleet.Card(start, c)
		target := b.fleet.View().Targets[0]
		if i == 0 {
			for n := range uint64(100) {
				target.Breaker.Done(start, n+1, breaker.Failed)
			}
			require.False(t, target.Breaker.Allows(start))
		}
	}
	require.True(t, b.fleet.View().Targets[0].Breaker.Allows(start))
}

// TestParityLowersCertainty checks that a worker whose own prompts differ is no longer trusted, one never asked is.
func TestParityLowersCertainty(t *testing.T) {
	t.Parallel()
	rows := []struct {
		state workerv1.ParityState
		want  policy.Certainty
		why   string
	}{
		{workerv1.ParityState_PARITY_STATE_UNSPECIFIED, policy.Exact, ""},
		{workerv1.ParityState_PARITY_STATE_PROVEN, policy.Exact, ""},
		{workerv1.ParityState_PARITY_STATE_DIFFERS, policy.Degraded, "parity"},
	}
	for _, row := range rows {
		b := newBench(nil)
		c := card("w", 1, "m")
		c.EventState = workerv1.EventState_EVENT_STATE_LIVE
		c.Parity = []*workerv1.ParityResult{{Feature: "chat", State: row.state}}
		b.fleet.Card(start, c)
		live(b, nil)
		got, why := b.fleet.View().Targets[0].Certainty(start)
		require.Equal(t, row.want, got)
		require.Equal(t, row.why, why)
	}
}

func live(b *bench, _ *Target) {
	b.snapshot("w")
	b.machine.Delta(start, &eventv1.KvDelta{WorkerId: "w", Epoch: 1, Heartbeat: true})
}

func gap(b *bench, t *Target) {
	live(b, t)
	b.machine.Delta(start, &eventv1.KvDelta{WorkerId: "w", Epoch: 1, Seq: 5})
}

func drift(b *bench, t *Target) {
	live(b, t)
	for range 10 {
		t.Drift.Observe(100, 50)
	}
}

func TestDriftNeedsProofAndForgets(t *testing.T) {
	t.Parallel()
	var d Drift
	for range driftLeast - 1 {
		d.Observe(100, 0)
	}
	require.False(t, d.High(), "too few")
	d.Observe(100, 0)
	require.True(t, d.High())
	for range 300 {
		d.Observe(100, 100)
	}
	require.False(t, d.High())
	require.Less(t, d.Share(), 0.01)
	var better Drift
	for range 20 {
		better.Observe(50, 90)
	}
	require.Zero(t, better.Share(), "more than promised is no drift")
}

// TestWithoutEventsExpectationsOutliveTheirRequest: they are all that is known.
func TestWithoutEventsExpectationsOutliveTheirRequest(t *testing.T) {
	t.Parallel()
	for _, events := range []bool{true, false} {
		b := newBench(nil)
		c := card("w", 1, "m")
		if !events {
			c.EventState = workerv1.EventState_EVENT_STATE_OFF
		}
		b.fleet.Card(start, c)
		target := b.fleet.View().Targets[0]
		units := []uint64{5, 6, 7}
		ticket := target.Reserve(start, 9, ledger.Booking{PromptTokens: 50, UncachedTokens: 50, Units: units})
		require.Equal(t, 3, target.Expect.Extend(units, start))
		target.End(start, 9, ticket, load.Settle{Complete: true, CachedTokens: load.Unknown})
		require.Equal(t, 3, target.Expect.Extend(units, start), "an answer may overtake its events")
		require.Equal(t, !events, target.Expect.Extend(units, start.Add(2*eventLag)) == 3)
	}
}

// TestResting: a worker that is paused and goes on with what runs is named while each of its models has another that is ready.
func TestResting(t *testing.T) {
	t.Parallel()
	b := newBench(nil)
	in := func(c *workerv1.WorkerCard, state workerv1.WorkerState) *workerv1.WorkerCard {
		c.State, c.Loads = state, []*workerv1.RankLoad{{Running: 1}}
		return c
	}
	const asleep = workerv1.WorkerState_WORKER_STATE_ASLEEP
	b.fleet.Card(start, in(card("a", 2, "m"), asleep))
	b.fleet.Card(start, in(card("b", 1, "m", "alone"), asleep))
	b.fleet.Card(start, in(card("c", 1, "m"), workerv1.WorkerState_WORKER_STATE_SICK))
	require.Empty(t, b.fleet.View().Resting(), "nobody else could do their work")
	b.fleet.Card(start, card("d", 1, "m"))
	require.Equal(t, []string{"a"}, b.fleet.View().Resting())
	require.Equal(t, []string{"c"}, b.fleet.View().Stalled())
	b.fleet.Card(start, card("a", 2, "m"))
	require.Empty(t, b.fleet.View().Resting())
}

func TestQualityStartsAtThePrior(t *testing.T) {
	t.Parallel()
	b := newBench(nil)
	b.fleet.Card(start, card("w", 1, "m"))
	c, q := b.fleet.View().Targets[0].Quality()
	require.Positive(t, c.PrefillS)
	require.Zero(t, q.PrefillSamples)
	require.True(t, slices.Contains(keys(b.fleet.View().Targets), "w/0"))
}

// TestIdleIsWhatReportsSay: from the first report without load to the latest, by the time at which they were made.
func TestIdleIsWhatReportsSay(t *testing.T) {
	t.Parallel()
	b := newBench(nil)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	report := func(s int, running, waiting, ageMS uint32) {
		c := card("w", 1, "m")
		c.Loads = []*workerv1.RankLoad{{Running: running, Waiting: waiting, AgeMs: ageMS}}
		b.fleet.Card(at(s), c)
	}
	idle := func(since, until time.Time) {
		t.Helper()
		s, u := b.fleet.View().Targets[0].Idle()
		require.True(t, s.Equal(since), s)
		require.True(t, u.Equal(until), u)
	}
	b.fleet.Card(at(0), card("w", 1, "m"))
	idle(time.Time{}, time.Time{})
	report(1, 0, 0, 0)
	idle(at(1), at(1))
	report(4, 0, 0, 1000)
	idle(at(1), at(3))
	report(5, 0, 0, 4000)
	idle(at(1), at(3))
	report(6, 0, 1, 0)
	idle(time.Time{}, time.Time{})
	report(7, 1, 0, 0)
	idle(time.Time{}, time.Time{})
	report(9, 0, 0, 0)
	report(12, 0, 0, 0)
	idle(at(9), at(12))
}
