package route

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/admit"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/breaker"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/feed"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/fleet"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/ledger"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/receipt"
)

// rig is an engine with a fleet of workers whose events are delivered by hand.
type rig struct {
	t       testing.TB
	clock   *kittest.Clock
	engine  *Engine
	fleet   *fleet.Fleet
	machine *feed.Machine
	ledger  *ledger.Ledger[*Booked]
	queue   *admit.Queue
	seqs    map[string]uint64
	watch   watcher
}

// watcher keeps what an engine reports.
type watcher struct {
	mu      sync.Mutex
	results map[Result]int
	ended   []Ending
}

func (w *watcher) Decided(d Decision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.results[d.Result]++
}

func (w *watcher) Settled(_ *Booked, e Ending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, e)
}

// setup says what differs from the usual rig.
type setup struct {
	policy      string
	maxInflight int
	maxWaiting  int
}

func newRig(t testing.TB, s setup) *rig {
	r := &rig{t: t, clock: kittest.NewClock(), seqs: map[string]uint64{}, watch: watcher{results: map[Result]int{}}}
	x := index.New(index.Config{})
	r.machine = feed.New(x, feed.DefaultLimits(), feed.Hooks{Ask: func(a feed.Ask) {
		go r.machine.Snapshot(r.clock.Now(), a, feed.Answer{Epoch: 1})
	}, Changed: r.changed, Counts: &feed.Counts{}})
	r.fleet = fleet.New(fleet.Config{
		Breaker:   breaker.Config{Failures: 3, OpenMin: time.Second, OpenMax: time.Minute},
		LateAfter: time.Hour, MaxInflight: s.maxInflight, BusyHold: time.Second, ExpectTTL: time.Minute, MaxWorkers: 5000,
	}, r.machine, r.clock.Now())
	r.ledger = ledger.New[*Booked](ledger.Config{MaxAge: time.Hour, PeerExpiry: time.Hour}, "s", 0, nil)
	r.queue = admit.New(admit.Config{MaxWaiting: s.maxWaiting, MaxTenants: 100}, r.clock.Now())
	name := s.policy
	if name == "" {
		name = policy.Default
	}
	p, err := policy.New(name, policy.DefaultOptions())
	require.NoError(t, err)
	r.engine = New(Config{
		MaxUnits: 1 << 16, MaxCandidates: 32, SessionCapacity: 100, NoWorkerRetry: time.Second, Seed: 11,
	}, Parts{
		Index: x, Fleet: r.fleet, Policy: p, Ledger: r.ledger, Queue: r.queue, Now: r.clock.Now, Observe: &r.watch,
		Receipts: receipt.NewStore(receipt.Limits{MaxRecords: 100, MaxBytes: 1 << 20}),
	})
	return r
}

func (r *rig) changed(k feed.Key) {
	if t := r.fleet.View().Target(k.Worker, k.Rank); t != nil && t.Stream != nil {
		t.Expect.Confirm(t.Stream.Holds)
	}
}

// worker adds a worker and waits until its streams are live.
func (r *rig) worker(id string, change func(*workerv1.WorkerCard)) {
	c := &workerv1.WorkerCard{
		WorkerId: id, HttpUrl: "http://" + id, BlockTokens: 16, GpuBlocks: 100_000, Ranks: 1, MaxSequences: 256,
		State: workerv1.WorkerState_WORKER_STATE_READY, EventState: workerv1.EventState_EVENT_STATE_LIVE,
		Models: []*workerv1.ServedModel{{Id: "m"}}, Version: "0.32.0",
	}
	if change != nil {
		change(c)
	}
	r.fleet.Card(r.clock.Now(), c)
	kittest.Eventually(r.t, func() error {
		for _, t := range r.fleet.View().Targets {
			if t.Stream.State() != feed.Live {
				return fmt.Errorf("%v is not live", t.Key)
			}
		}
		return nil
	})
}

// event delivers a delta of the stream; name is "worker/rank".
func (r *rig) event(worker string, rank uint32, d *eventv1.TierDelta) {
	name := fmt.Sprint(worker, "/", rank)
	r.seqs[name]++
	r.machine.Delta(r.clock.Now(), &eventv1.KvDelta{
		WorkerId: worker, Rank: rank, Epoch: 1, Seq: r.seqs[name], Tiers: []*eventv1.TierDelta{d},
	})
}

func (r *rig) store(worker string, units []uint64) {
	r.event(worker, 0, &eventv1.TierDelta{Tier: workerv1.Tier_TIER_GPU, Added: units})
}

func prompt(name string, n int) []uint64 {
	ids := make([]uint32, n*kvblock.UnitTokens)
	for i := range ids {
		ids[i] = uint32(i)
	}
	return kvblock.AppendUnits(nil, kvblock.Namespace{Model: "m"}.Root(), ids, name)
}

func ask(units []uint64) *schedulerv1.RouteRequest {
	return &schedulerv1.RouteRequest{
		RequestId: "r", Model: "m", UnitHashes: units, PromptTokens: uint32(len(units)*kvblock.UnitTokens + 3),
		MaxOutputTokens: 50, Certainty: schedulerv1.Certainty_CERTAINTY_EXACT,
	}
}

func (r *rig) route(req *schedulerv1.RouteRequest) *schedulerv1.RouteResponse {
	resp, err := r.engine.Route(r.t.(*testing.T).Context(), req)
	require.NoError(r.t, err)
	return resp
}

func (r *rig) end(resp *schedulerv1.RouteResponse, o schedulerv1.Outcome, cached int) {
	s := &schedulerv1.SettleRequest{Reservation: resp.GetReservation(), Outcome: o, OutputTokens: 10}
	if cached >= 0 {
		s.CachedTokens = proto.Uint32(uint32(cached))
	}
	r.engine.Settle(s)
}

const (
	ok       = schedulerv1.Outcome_OUTCOME_OK
	failed   = schedulerv1.Outcome_OUTCOME_FAILED
	rejected = schedulerv1.Outcome_OUTCOME_REJECTED
	busy     = schedulerv1.Outcome_OUTCOME_BUSY
)
