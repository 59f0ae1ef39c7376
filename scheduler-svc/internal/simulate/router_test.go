package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

// TestTheRouterForgetsWhatEnded: after the last answer nothing is booked, inserted or open.
func TestTheRouterForgetsWhatEnded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"round-robin", "lmetric", "cost"} {
		cfg := config(t, HotGroup(1, 400), name)
		cfg.KVTokens = 80_000
		r, err := prepare(cfg)
		require.NoError(t, err)
		r.all()
		require.Empty(t, r.router.open)
		require.Zero(t, r.live)
		for i := range r.router.targets {
			target := &r.router.targets[i]
			require.Zero(t, target.ledger.Inflight())
			require.Zero(t, target.ledger.Queued(r.now))
			for _, n := range target.inserts {
				require.Zero(t, n)
			}
		}
	}
}

// TestAllPoliciesSeeTheSameArrivals within a stage.
func TestAllPoliciesSeeTheSameArrivals(t *testing.T) {
	t.Parallel()
	var want []time.Duration
	for _, name := range policy.Names() {
		r, err := prepare(config(t, HotGroup(1, 200), name))
		require.NoError(t, err)
		r.all()
		var got []time.Duration
		for i := range r.results {
			got = append(got, r.results[i].arrived)
		}
		if want == nil {
			want = got
		}
		require.Equal(t, want, got, name)
	}
}

// TestSpeculativeInsertsAreSeenAtOnce: a second request with the same prompt is predicted to hit before the first one's
// prefill has begun.
func TestSpeculativeInsertsAreSeenAtOnce(t *testing.T) {
	t.Parallel()
	w := HotGroup(1, 2)
	a := w.Stages[0].Arrivals[0]
	a.At = 0
	w.Stages[0].Arrivals = []Arrival{a, a}
	r, err := prepare(config(t, w, "longest-prefix"))
	require.NoError(t, err)
	r.all()
	require.Equal(t, r.results[0].worker, r.results[1].worker)
	require.Equal(t, []int{0, 9792}, []int{r.results[0].predicted, r.results[1].predicted})
	require.Equal(t, []int{0, 9792}, []int{r.results[0].hit, r.results[1].hit})
}

// TestReportsAreAsOldAsThePoll: a router that polls every second does not see what began since.
func TestReportsAreAsOldAsThePoll(t *testing.T) {
	t.Parallel()
	cfg := config(t, HotGroup(1, 50), "round-robin")
	cfg.Poll = time.Second
	r, err := prepare(cfg)
	require.NoError(t, err)
	seen := func(w int) int {
		var v policy.View
		r.router.targets[w].ledger.Fill(r.now, 1, &v)
		return v.Waiting + v.Running
	}
	at := func(now time.Duration) {
		r.now = now
		r.arrive(&cfg.Workload.Stages[0].Arrivals[0])
	}
	at(100 * time.Millisecond)
	first := r.results[0].worker
	r.router.observe(first, 900*time.Millisecond)
	require.Zero(t, seen(first))
	r.router.observe(first, 1100*time.Millisecond)
	require.Equal(t, 1, seen(first), "at the poll one request was running")
}

func TestBalance(t *testing.T) {
	t.Parallel()
	r, err := prepare(config(t, HotGroup(1, 10), "round-robin"))
	require.NoError(t, err)
	require.Zero(t, r.balance.mean())
	load := func(counts ...int) {
		r.live = 0
		for i, n := range counts {
			r.workers[i].running = make([]*sequence, n)
			r.live += n
		}
	}
	load(3, 3, 3, 3)
	r.balance.hold(r, time.Second)
	require.Zero(t, r.balance.mean())
	load(8, 0, 0, 0)
	r.balance.hold(r, time.Second)
	require.InDelta(t, 1.7320508/2, r.balance.mean(), 1e-6, "half the time one of four has everything")
	load(0, 0, 0, 0)
	r.balance.hold(r, time.Hour)
	require.InDelta(t, 1.7320508/2, r.balance.mean(), 1e-6, "an idle pool has no balance")
}

func TestCells(t *testing.T) {
	t.Parallel()
	cells, err := Cells(corpus(t), 1)
	require.NoError(t, err)
	var names []string
	for _, c := range cells {
		names = append(names, c.Name)
		require.NotEmpty(t, c.Note)
		for _, w := range c.Workloads {
			require.Equal(t, c.Workloads[0].Requests() > 0, w.Requests() > 0)
		}
		if c.Spread > 0 {
			require.NotEqual(t, c.Workloads[0].Stages, c.Workloads[1].Stages, "each seed spreads differently")
		}
	}
	require.Equal(t, []string{"B2B", "A", "B", "C", "F", "D", "N", "A'", "B'", "C'", "F'", "D'", "N'", "H"}, names)
	_, err = Cells("nowhere", 1)
	require.ErrorContains(t, err, "KVMESH_CORPUS")
}
