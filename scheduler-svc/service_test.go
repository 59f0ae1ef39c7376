package schedulersvc_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

func TestRequestGoesToTheWorkerThatHoldsItsPrefix(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	a, b := m.adapter("a", nil), m.adapter("b", nil)
	c, _ := m.scheduler("one", nil)
	prompt := chain("p", 64)
	a.store(false, prompt[:20]...)
	b.store(false, prompt[:50]...)
	holds(t, c, map[string]uint64{"a/0": 20, "b/0": 50})

	r, err := c.Route(t.Context(), request("r1", prompt))
	require.NoError(t, err)
	require.Equal(t, "b", r.GetTarget().GetWorkerId())
	require.Equal(t, "http://b", r.GetHttpUrl())
	require.Equal(t, uint32(50*16), r.GetPredictedHitTokens())
	require.Equal(t, schedulerv1.Certainty_CERTAINTY_EXACT, r.GetCertainty())
	require.Equal(t, uint32(2), r.GetCandidates())
	require.False(t, r.GetSendRank())

	_, err = c.Progress(t.Context(), &schedulerv1.ProgressRequest{Reservation: r.GetReservation(), TtftUs: 9000})
	require.NoError(t, err)
	workers(t, c, func(v map[string]*schedulerv1.WorkerView) error {
		require.Equal(t, uint32(1), v["b/0"].GetInflight())
		require.Zero(t, v["b/0"].GetQueuedTokens())
		return nil
	})
	end := &schedulerv1.SettleRequest{
		Reservation: r.GetReservation(), Outcome: schedulerv1.Outcome_OUTCOME_OK, CachedTokens: proto.Uint32(784),
		OutputTokens: 12, TtftUs: 9000,
	}
	settle(t, c, end)
	settle(t, c, end) // the second one counts for nothing
	workers(t, c, func(v map[string]*schedulerv1.WorkerView) error {
		require.Zero(t, v["b/0"].GetInflight())
		return nil
	})

	got, err := c.GetReceipt(t.Context(), &schedulerv1.GetReceiptRequest{RequestId: "r1"})
	require.NoError(t, err)
	require.Len(t, got.GetReceipts(), 1)
	receipt := got.GetReceipts()[0]
	require.Equal(t, "b", receipt.GetChosen().GetWorkerId())
	require.Len(t, receipt.GetCandidates(), 2)
	require.Equal(t, uint32(800), receipt.GetPredictedHitTokens())
	require.Equal(t, uint32(784), receipt.GetActualHitTokens())
	require.Equal(t, schedulerv1.Outcome_OUTCOME_OK, receipt.GetOutcome())
	require.NotEmpty(t, receipt.GetReason())
	require.NotEmpty(t, receipt.GetCandidates()[0].GetTerms())
}

func TestExplainBooksNothing(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	a := m.adapter("a", nil)
	c, _ := m.scheduler("one", nil)
	prompt := chain("p", 8)
	a.store(false, prompt...)
	holds(t, c, map[string]uint64{"a/0": 8})
	r, err := c.ExplainRoute(t.Context(), &schedulerv1.ExplainRouteRequest{Request: request("x", prompt)})
	require.NoError(t, err)
	require.Equal(t, "a", r.GetReceipt().GetChosen().GetWorkerId())
	require.Equal(t, uint32(128), r.GetReceipt().GetPredictedHitTokens())
	_, err = c.GetReceipt(t.Context(), &schedulerv1.GetReceiptRequest{RequestId: "x"})
	require.Equal(t, faultv1.Reason_REASON_NOT_FOUND, fault.ReasonOf(err))
	workers(t, c, func(v map[string]*schedulerv1.WorkerView) error {
		require.Zero(t, v["a/0"].GetInflight())
		return nil
	})
}

// TestHeartbeatRevealsALostDelta: INDEX-04, and the last message of a burst.
func TestHeartbeatRevealsALostDelta(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	a := m.adapter("a", nil)
	c, _ := m.scheduler("one", nil)
	prompt := chain("p", 30)
	a.store(false, prompt[:10]...)
	holds(t, c, map[string]uint64{"a/0": 10})
	a.store(true, prompt[10:20]...)
	a.heartbeat()
	holds(t, c, map[string]uint64{"a/0": 20})
	a.store(true, prompt[20:25]...)
	a.store(false, prompt[25:]...)
	holds(t, c, map[string]uint64{"a/0": 30})
	a.remove(prompt[5:]...)
	holds(t, c, map[string]uint64{"a/0": 5})
}

// TestRestartedWorkerLosesItsCredit: INDEX-07.
func TestRestartedWorkerLosesItsCredit(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	a := m.adapter("a", nil)
	c, _ := m.scheduler("one", nil)
	a.store(false, chain("p", 30)...)
	holds(t, c, map[string]uint64{"a/0": 30})
	a.restart()
	holds(t, c, map[string]uint64{"a/0": 0})
	a.store(false, chain("q", 3)...)
	holds(t, c, map[string]uint64{"a/0": 3})
}

// TestLateSchedulerIsExactAfterSnapshots: INDEX-09.
func TestLateSchedulerIsExactAfterSnapshots(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	want := map[string]uint64{}
	for i := range 6 {
		id := fmt.Sprintf("w%d", i)
		m.adapter(id, nil).store(false, chain("p", 10*(i+1))...)
		want[id+"/0"] = uint64(10 * (i + 1))
	}
	c, stop := m.scheduler("one", nil)
	holds(t, c, want)
	stop()
	c, _ = m.scheduler("two", nil)
	holds(t, c, want)
}

func TestModelsAndFaults(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	a := m.adapter("a", func(c *workerv1.WorkerCard) {
		c.Models = append(c.Models, &workerv1.ServedModel{Id: "lora-x", Parent: model},
			&workerv1.ServedModel{Id: "z-name", AliasOf: model, EntryJson: []byte(`{"id":"z-name"}`)})
	})
	m.adapter("b", func(c *workerv1.WorkerCard) { c.State = workerv1.WorkerState_WORKER_STATE_ASLEEP })
	c, _ := m.scheduler("one", nil)
	holds(t, c, map[string]uint64{"a/0": 0, "b/0": 0})
	models, err := c.ListModels(t.Context(), &schedulerv1.ListModelsRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{model, "lora-x", "z-name"}, names(models.GetModels()))
	require.Empty(t, models.GetModels()[0].GetAliasOf())
	require.Equal(t, model, models.GetModels()[2].GetAliasOf())
	require.Equal(t, uint32(2), models.GetModels()[0].GetWorkers())
	require.Equal(t, uint32(1), models.GetModels()[0].GetReadyWorkers())
	require.JSONEq(t, `{"id":"demo"}`, string(models.GetModels()[0].GetEntryJson()))

	lora := request("l", chain("l", 4))
	lora.Model = "lora-x"
	r, err := c.Route(t.Context(), lora)
	require.NoError(t, err)
	require.Equal(t, "a", r.GetTarget().GetWorkerId())
	settle(t, c, &schedulerv1.SettleRequest{Reservation: r.GetReservation(), Outcome: schedulerv1.Outcome_OUTCOME_OK})

	unknown := request("u", nil)
	unknown.Model = "nobody"
	_, err = c.Route(t.Context(), unknown)
	require.Equal(t, faultv1.Reason_REASON_MODEL_NOT_FOUND, fault.ReasonOf(err))

	excluded := request("e", nil)
	excluded.Exclude = []*schedulerv1.Target{{WorkerId: "a"}}
	_, err = c.Route(t.Context(), excluded)
	require.Equal(t, faultv1.Reason_REASON_NO_WORKER, fault.ReasonOf(err))
	require.Positive(t, fault.From(err).RetryAfter)
	got, err := c.GetReceipt(t.Context(), &schedulerv1.GetReceiptRequest{RequestId: "e"})
	require.NoError(t, err)
	require.Nil(t, got.GetReceipts()[0].GetChosen())
	require.Len(t, got.GetReceipts()[0].GetExcluded(), 2)

	require.NoError(t, m.bus.DeleteCard(t.Context(), "a"))
	require.NoError(t, m.bus.DeleteCard(t.Context(), "b"))
	workers(t, c, func(v map[string]*schedulerv1.WorkerView) error {
		if len(v) > 0 {
			return errors.New("still there")
		}
		return nil
	})
	_, err = c.Route(t.Context(), request("g", nil))
	require.Equal(t, faultv1.Reason_REASON_NO_WORKER, fault.ReasonOf(err), "known, and away")
	a.renew()
	kittest.Eventually(t, func() error {
		_, err := c.Route(t.Context(), request("h", nil))
		return err
	})
}

// TestSchedulersShareLoad: ROUTE-14. Two schedulers see each other's reservations, and the share of one that leaves ends.
// TestGatewaysKeepWhatTheyBooked: while they ask for the models. The answer names the workers that stand still.
func TestGatewaysKeepWhatTheyBooked(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.bus = kittest.BusWith(t, m.nats, bus.Config{CardTTL: time.Minute})
	m.adapter("a", nil)
	sick := m.adapter("b", func(c *workerv1.WorkerCard) {
		c.Ranks, c.State = 2, workerv1.WorkerState_WORKER_STATE_SICK
		c.Loads = []*workerv1.RankLoad{{}, {}}
	})
	c, _ := m.scheduler("one", nil)
	holds(t, c, map[string]uint64{"a/0": 0, "b/0": 0, "b/1": 0})
	ask := func(gateway string, leaseMS uint32) []string {
		r, err := c.ListModels(t.Context(), &schedulerv1.ListModelsRequest{Gateway: gateway, LeaseMs: leaseMS})
		require.NoError(t, err)
		return r.GetStalledWorkers()
	}
	require.Equal(t, []string{"b"}, ask("lives", 600_000))
	for i, gateway := range []string{"dies", "lives", ""} {
		q := request(fmt.Sprint("r", i), chain("p", 4))
		q.Gateway = gateway
		_, err := c.Route(t.Context(), q)
		require.NoError(t, err)
	}
	workers(t, c, func(v map[string]*schedulerv1.WorkerView) error {
		ask("dies", 1) // once more: a lease that ended before the reservation says nothing of it
		if n := v["a/0"].GetInflight(); n != 2 {
			return fmt.Errorf("%d in flight, want 2", n)
		}
		return nil
	})
	sick.card.State = workerv1.WorkerState_WORKER_STATE_READY
	sick.renew()
	kittest.Eventually(t, func() error {
		if stalled := ask("", 0); len(stalled) > 0 {
			return fmt.Errorf("%v stand still", stalled)
		}
		return nil
	})
}

func TestSchedulersShareLoad(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.adapter("a", nil)
	m.adapter("b", nil)
	one, stop := m.scheduler("one", nil)
	two, _ := m.scheduler("two", nil)
	holds(t, one, map[string]uint64{"a/0": 0, "b/0": 0})
	holds(t, two, map[string]uint64{"a/0": 0, "b/0": 0})
	for i := range 10 {
		_, err := one.Route(t.Context(), request(fmt.Sprint(i), chain(string(rune('a'+i)), 20)))
		require.NoError(t, err)
	}
	inflight := func(want uint32) func(map[string]*schedulerv1.WorkerView) error {
		return func(v map[string]*schedulerv1.WorkerView) error {
			a, b := v["a/0"].GetInflight(), v["b/0"].GetInflight()
			if a+b != want {
				return fmt.Errorf("%d and %d in flight, want %d together", a, b, want)
			}
			return nil
		}
	}
	workers(t, two, inflight(10))
	stop()
	workers(t, two, inflight(0))
}
