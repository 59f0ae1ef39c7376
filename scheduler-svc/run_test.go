package schedulersvc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	schedulersvc "github.com/kvmesh/kvmesh/scheduler-svc"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

// TestExpectationsTurnIntoFactsByTheEvent: the whole way over the bus.
func TestExpectationsTurnIntoFactsByTheEvent(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	a := m.adapter("a", nil)
	c, _ := m.scheduler("one", nil)
	units := chain("p", 12)
	holds(t, c, map[string]uint64{"a/0": 0})
	r, err := c.Route(t.Context(), request("r", units))
	require.NoError(t, err)
	require.Zero(t, r.GetPredictedHitTokens())
	hit := func() (total, expected uint32) {
		x, err := c.ExplainRoute(t.Context(), &schedulerv1.ExplainRouteRequest{Request: request("x", units)})
		require.NoError(t, err)
		best := x.GetReceipt().GetCandidates()[0]
		return best.GetHitTokens(), best.GetExpectedHitTokens()
	}
	total, expected := hit()
	require.Equal(t, []uint32{192, 192}, []uint32{total, expected})
	a.store(false, units...)
	holds(t, c, map[string]uint64{"a/0": 12})
	total, expected = hit()
	require.Equal(t, []uint32{192, 0}, []uint32{total, expected})
	a.remove(units[6:]...)
	holds(t, c, map[string]uint64{"a/0": 6})
	total, _ = hit()
	require.Equal(t, uint32(96), total, "evicted before the request ended, and expected no more")
	settle(t, c, &schedulerv1.SettleRequest{Reservation: r.GetReservation(), Outcome: schedulerv1.Outcome_OUTCOME_OK})
}

// TestPeersExpectEachOthersUnits: a second scheduler routes the same prompt to the same worker before any event.
func TestPeersExpectEachOthersUnits(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	for i := range 4 {
		m.adapter(fmt.Sprint("w", i), nil)
	}
	one, _ := m.scheduler("one", nil)
	two, _ := m.scheduler("two", nil)
	for _, c := range []schedulerv1.SchedulerServiceClient{one, two} {
		holds(t, c, map[string]uint64{"w0/0": 0, "w1/0": 0, "w2/0": 0, "w3/0": 0})
	}
	units := chain("p", 200)
	r, err := one.Route(t.Context(), request("r", units))
	require.NoError(t, err)
	kittest.Eventually(t, func() error {
		x, err := two.ExplainRoute(t.Context(), &schedulerv1.ExplainRouteRequest{Request: request("x", units)})
		if err != nil {
			return err
		}
		if got := x.GetReceipt().GetChosen().GetWorkerId(); got != r.GetTarget().GetWorkerId() {
			return fmt.Errorf("goes to %s", got)
		}
		if x.GetReceipt().GetPredictedHitTokens() != 3200 {
			return fmt.Errorf("expects %d tokens", x.GetReceipt().GetPredictedHitTokens())
		}
		return nil
	})
}

// TestAuditMendsAnIndexThatWentWrong: a delta that lies is found by the next heartbeat and mended by a snapshot.
func TestAuditMendsAnIndexThatWentWrong(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	a := m.adapter("a", nil)
	c, _ := m.scheduler("one", nil)
	a.store(false, chain("p", 10)...)
	holds(t, c, map[string]uint64{"a/0": 10})
	a.mu.Lock()
	a.seq++
	a.publish(&eventv1.KvDelta{Tiers: []*eventv1.TierDelta{{Tier: workerv1.Tier_TIER_GPU, Added: []uint64{1, 2, 3}}}})
	a.mu.Unlock()
	holds(t, c, map[string]uint64{"a/0": 13})
	a.heartbeat()
	holds(t, c, map[string]uint64{"a/0": 10})
}

// TestBusyYetWithoutEventsIsFallback: INDEX-08, as the card tells it.
func TestBusyYetWithoutEventsIsFallback(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.adapter("a", func(c *workerv1.WorkerCard) { c.EventState = workerv1.EventState_EVENT_STATE_SILENT })
	c, _ := m.scheduler("one", nil)
	workers(t, c, func(v map[string]*schedulerv1.WorkerView) error {
		if v["a/0"] == nil {
			return fmt.Errorf("no card yet")
		}
		return nil
	})
	units := chain("p", 12)
	for i, want := range []uint32{0, 192, 192} {
		r, err := c.Route(t.Context(), request("r", units))
		require.NoError(t, err)
		require.Equal(t, schedulerv1.Certainty_CERTAINTY_FALLBACK, r.GetCertainty())
		require.Equal(t, want, r.GetPredictedHitTokens(), "request %d", i)
		settle(t, c, &schedulerv1.SettleRequest{Reservation: r.GetReservation(), Outcome: schedulerv1.Outcome_OUTCOME_OK})
	}
}

// TestALeaseThatEndsTakesTheWorkerOut: FLEET-01 and INDEX-02, with a short lease.
func TestALeaseThatEndsTakesTheWorkerOut(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.bus = kittest.BusWith(t, m.nats, bus.Config{CardTTL: 400 * time.Millisecond})
	m.adapter("gone", nil).store(false, chain("p", 5)...)
	c, _ := m.scheduler("one", nil)
	workers(t, c, func(v map[string]*schedulerv1.WorkerView) error {
		if len(v) > 0 {
			return fmt.Errorf("still there")
		}
		return nil
	})
	models, err := c.ListModels(t.Context(), &schedulerv1.ListModelsRequest{})
	require.NoError(t, err)
	require.Empty(t, models.GetModels())
}

func TestSinkGetsEverySettledRequest(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.adapter("a", nil)
	path := filepath.Join(t.TempDir(), "receipts.ndjson")
	c, stop := m.scheduler("one", func(cfg *schedulersvc.Config) { cfg.Receipts.Sink = path })
	holds(t, c, map[string]uint64{"a/0": 0})
	for i := range 5 {
		r, err := c.Route(t.Context(), request(fmt.Sprint("id-", i), chain("p", 3)))
		require.NoError(t, err)
		settle(t, c, &schedulerv1.SettleRequest{
			Reservation: r.GetReservation(), Outcome: schedulerv1.Outcome_OUTCOME_OK, CachedTokens: proto.Uint32(0),
		})
	}
	stop()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	require.Len(t, lines, 5)
	require.Contains(t, lines[4], `"id-4"`)
	require.Contains(t, lines[4], "OUTCOME_OK")
}
