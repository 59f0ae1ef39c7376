package route

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

// TestABurstSpreadsWithoutAnyReport: ROUTE-01 and ROUTE-02. Loads are the own bookings, not a poll.
func TestABurstSpreadsWithoutAnyReport(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	for i := range 4 {
		r.worker(fmt.Sprint("w", i), nil)
	}
	counts := map[string]int{}
	for i := range 100 {
		counts[r.route(ask(prompt(fmt.Sprint(i), 30))).GetTarget().GetWorkerId()]++
	}
	for w, n := range counts {
		require.InDelta(t, 25, n, 1, w)
	}
}

// TestTiesAreDrawn: ROUTE-05. 448 cold requests one after the other over two idle workers.
func TestTiesAreDrawn(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("a", nil)
	r.worker("b", nil)
	counts := map[string]int{}
	for i := range 448 {
		resp := r.route(ask(prompt(fmt.Sprint(i), 5)))
		counts[resp.GetTarget().GetWorkerId()]++
		r.end(resp, rejected, -1) // leaves nothing behind that could tell the workers apart
	}
	require.Less(t, counts["a"], 269)
	require.Less(t, counts["b"], 269)
}

// TestSeedReproduces: equal seeds and events give equal choices.
func TestSeedReproduces(t *testing.T) {
	t.Parallel()
	var runs [2][]string
	for n := range runs {
		r := newRig(t, setup{policy: "random"})
		for i := range 5 {
			r.worker(fmt.Sprint("w", i), nil)
		}
		for range 50 {
			runs[n] = append(runs[n], r.route(ask(nil)).GetTarget().GetWorkerId())
		}
	}
	require.Equal(t, runs[0], runs[1])
}

// TestRefusalsAreNoFailures: ROUTE-08.
func TestRefusalsAreNoFailures(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("a", nil)
	r.worker("b", nil)
	for range 100 {
		r.end(r.route(ask(nil)), rejected, -1)
	}
	receipt, err := r.engine.Explain(ask(nil))
	require.NoError(t, err)
	require.Len(t, receipt.GetCandidates(), 2)
}

func TestFailuresOpenTheBreakerAndAProbeClosesIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("w", nil)
	for range 3 {
		r.end(r.route(ask(nil)), failed, -1)
	}
	_, err := r.engine.Route(t.Context(), ask(nil))
	require.Equal(t, faultv1.Reason_REASON_NO_WORKER, fault.ReasonOf(err))
	r.clock.Advance(time.Second)
	probe := r.route(ask(nil))
	_, err = r.engine.Route(t.Context(), ask(nil))
	require.Equal(t, faultv1.Reason_REASON_NO_WORKER, fault.ReasonOf(err), "one probe at a time")
	r.end(probe, ok, -1)
	r.end(r.route(ask(nil)), ok, -1)
	require.Equal(t, 2, r.watch.results[NoWorker])
}

func TestExclusionsStatesAndModels(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("ready", nil)
	states := map[string]workerv1.WorkerState{
		"draining": workerv1.WorkerState_WORKER_STATE_DRAINING, "asleep": workerv1.WorkerState_WORKER_STATE_ASLEEP,
		"sick": workerv1.WorkerState_WORKER_STATE_SICK, "starting": workerv1.WorkerState_WORKER_STATE_STARTING,
	}
	for name, state := range states {
		r.worker(name, func(c *workerv1.WorkerCard) { c.State = state })
	}
	r.worker("other", func(c *workerv1.WorkerCard) { c.Models[0].Id = "x" })
	receipt, err := r.engine.Explain(ask(nil))
	require.NoError(t, err)
	require.Equal(t, "ready", receipt.GetChosen().GetWorkerId())
	require.Equal(t, "only candidate", receipt.GetReason())
	got := map[string]string{}
	for _, e := range receipt.GetExcluded() {
		got[e.GetTarget().GetWorkerId()] = e.GetReason()
	}
	require.Equal(t, map[string]string{
		"draining": "draining", "asleep": "asleep", "sick": "sick", "starting": "starting",
	}, got)
	req := ask(nil)
	req.Exclude = []*schedulerv1.Target{{WorkerId: "ready"}}
	_, err = r.engine.Route(t.Context(), req)
	require.Equal(t, faultv1.Reason_REASON_NO_WORKER, fault.ReasonOf(err))
	require.Equal(t, time.Second, fault.From(err).RetryAfter)
}

// TestAPromptLargerThanACacheGoesElsewhere: it could never be admitted there.
func TestAPromptLargerThanACacheGoesElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("small", func(c *workerv1.WorkerCard) { c.GpuBlocks = 10 })
	r.worker("large", nil)
	for range 10 {
		require.Equal(t, "large", r.route(ask(prompt("p", 20))).GetTarget().GetWorkerId())
	}
}

// TestAPromptThatEveryWorkerRefusesIsSent: its 400 tells the client what is wrong, a 503 would have it try again.
func TestAPromptThatEveryWorkerRefusesIsSent(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("a", func(c *workerv1.WorkerCard) { c.GpuBlocks, c.MaxModelTokens = 10, 100 })
	require.Equal(t, "a", r.route(ask(prompt("p", 20))).GetTarget().GetWorkerId())
}

// TestSessionStaysWhileItsHitsLast: ROUTE-06.
func TestSessionStaysWhileItsHitsLast(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("a", nil)
	r.worker("b", nil)
	req := ask(prompt("p", 4))
	req.Session = "s"
	home := r.route(req)
	r.end(home, ok, 0)
	for range 3 {
		resp := r.route(req)
		require.Equal(t, home.GetTarget().GetWorkerId(), resp.GetTarget().GetWorkerId())
		r.end(resp, ok, 0)
	}
	_, homed := r.engine.sessions.home(req)
	require.False(t, homed, "three misses in a row")
	r.end(r.route(req), ok, 0)
	_, homed = r.engine.sessions.home(req)
	require.True(t, homed, "a new home")
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("a", nil)
	for i := range 1000 {
		req := ask(nil)
		req.Session = fmt.Sprint(i)
		r.end(r.route(req), ok, -1)
	}
	require.LessOrEqual(t, len(r.engine.sessions.homes), 100)
}

// TestFullWorkersMakeRequestsWait: the queue is bounded and first come, first served; refusals say when to come back.
func TestFullWorkersMakeRequestsWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{maxInflight: 1, maxWaiting: 2})
	r.worker("w", nil)
	running := r.route(ask(nil))
	placed := make(chan *schedulerv1.RouteResponse, 2)
	for i := range 2 {
		go func() {
			resp, err := r.engine.Route(context.Background(), ask(nil))
			if err == nil {
				placed <- resp
			}
		}()
		kittest.Eventually(t, func() error {
			if n := r.queue.Waiting(); n != i+1 {
				return fmt.Errorf("%d wait", n)
			}
			return nil
		})
	}
	_, err := r.engine.Route(t.Context(), ask(nil))
	require.Equal(t, faultv1.Reason_REASON_OVERLOADED, fault.ReasonOf(err))
	require.Positive(t, fault.From(err).RetryAfter)
	require.Empty(t, placed)
	r.clock.Advance(30 * time.Millisecond)
	r.end(running, ok, -1)
	second := kittest.Recv(t, placed)
	require.Equal(t, uint32(30), second.GetQueuedMs())
	r.end(second, ok, -1)
	r.end(kittest.Recv(t, placed), ok, -1)
	require.Zero(t, r.queue.Waiting())
	require.Zero(t, r.ledger.Open())
	require.Equal(t, map[Result]int{Placed: 3, QueueFull: 1}, r.watch.results)
}

// TestAdaptersAndTheirBaseWaitInOneLine: without the queue's tick, which would hide who is told of a free place.
func TestAdaptersAndTheirBaseWaitInOneLine(t *testing.T) {
	t.Parallel()
	serves := func(names ...string) func(*workerv1.WorkerCard) {
		return func(c *workerv1.WorkerCard) {
			for _, name := range names {
				c.Models = append(c.Models, &workerv1.ServedModel{Id: name, Parent: "m"})
			}
		}
	}
	type seat struct {
		model string
		resp  *schedulerv1.RouteResponse
	}
	type line struct {
		*rig
		placed chan seat
	}
	open := func() line { return line{newRig(t, setup{maxInflight: 1, maxWaiting: 9}), make(chan seat, 9)} }
	joinAs := func(l line, model string, req *schedulerv1.RouteRequest) {
		waiting := l.queue.Waiting()
		go func() {
			if resp, err := l.engine.Route(context.Background(), req); err == nil {
				l.placed <- seat{model, resp}
			}
		}()
		kittest.Eventually(t, func() error {
			if l.queue.Waiting() != waiting+1 {
				return fmt.Errorf("it does not wait yet")
			}
			return nil
		})
	}
	join := func(l line, model, tenant string) {
		req := ask(nil)
		req.Model, req.Tenant = model, tenant
		joinAs(l, model, req)
	}
	t.Run("an adapter's request has its turn among those of the base", func(t *testing.T) {
		t.Parallel()
		l := open()
		l.worker("w", serves("adapter"))
		running := ask(nil)
		running.Tenant = "busy"
		first := l.route(running)
		for range 3 {
			join(l, "m", "busy")
		}
		join(l, "adapter", "other")
		l.end(first, ok, -1)
		next := kittest.Recv(t, l.placed)
		require.Equal(t, "adapter", next.model, "its tenant was served least")
		for range 3 {
			l.end(next.resp, ok, -1)
			next = kittest.Recv(t, l.placed)
			require.Equal(t, "m", next.model)
		}
	})
	t.Run("an adapter's full workers keep nobody from free ones", func(t *testing.T) {
		t.Parallel()
		l := open()
		l.worker("w1", serves("adapter"))
		req := ask(nil)
		req.Model = "adapter"
		there := l.route(req)
		l.worker("w2", nil)
		elsewhere := l.route(ask(nil))
		require.Equal(t, "w2", elsewhere.GetTarget().GetWorkerId())
		join(l, "adapter", "a")
		join(l, "m", "b")
		l.end(elsewhere, ok, -1)
		next := kittest.Recv(t, l.placed)
		require.Equal(t, "m", next.model, "the adapter's request is first, and has no room")
		l.end(next.resp, ok, -1)
		l.end(l.route(ask(nil)), ok, -1) // nor does it hold a newcomer
		l.end(there, ok, -1)
		require.Equal(t, "adapter", kittest.Recv(t, l.placed).model)
	})
	t.Run("a prompt as long as a cache keeps nobody from that worker", func(t *testing.T) {
		t.Parallel()
		l := open()
		l.worker("small", func(c *workerv1.WorkerCard) { c.GpuBlocks = 10 })
		l.worker("large", nil)
		long := func() *schedulerv1.RouteRequest {
			req := ask(nil)
			req.Tenant, req.PromptTokens = "a", 160
			return req
		}
		there := l.route(long())
		require.Equal(t, "large", there.GetTarget().GetWorkerId())
		elsewhere := l.route(ask(nil))
		require.Equal(t, "small", elsewhere.GetTarget().GetWorkerId())
		joinAs(l, "long", long())
		short := ask(nil)
		short.Tenant, short.PromptTokens = "a", 1
		joinAs(l, "short", short)
		l.end(elsewhere, ok, -1)
		next := kittest.Recv(t, l.placed)
		require.Equal(t, "short", next.model, "the long one is first, and does not fit")
		require.Equal(t, "small", next.resp.GetTarget().GetWorkerId())
		l.end(there, ok, -1)
		require.Equal(t, "long", kittest.Recv(t, l.placed).model)
	})
}

// TestLeavingTheQueueLeavesNothing: CANCEL-01.
func TestLeavingTheQueueLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{maxInflight: 1, maxWaiting: 5})
	r.worker("w", nil)
	running := r.route(ask(nil))
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := r.engine.Route(ctx, ask(nil))
		left <- err
	}()
	kittest.Eventually(t, func() error {
		if r.queue.Waiting() != 1 {
			return fmt.Errorf("nobody waits")
		}
		return nil
	})
	cancel()
	require.Equal(t, faultv1.Reason_REASON_CANCELLED, fault.ReasonOf(kittest.Recv(t, left)))
	require.Zero(t, r.queue.Waiting())
	r.end(running, ok, -1)
	r.end(r.route(ask(nil)), ok, -1)
	require.Zero(t, r.ledger.Open())
}

func TestBusyWorkersAreLeftAloneForAMoment(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{maxWaiting: 0})
	r.worker("w", nil)
	r.end(r.route(ask(nil)), busy, -1)
	_, err := r.engine.Route(t.Context(), ask(nil))
	require.Equal(t, faultv1.Reason_REASON_OVERLOADED, fault.ReasonOf(err))
	r.clock.Advance(time.Second)
	r.end(r.route(ask(nil)), ok, -1)
}

// TestSettlesAreExactlyOnce: CANCEL-06. A thousand ends of every kind, twice each, leave nothing in flight.
func TestSettlesAreExactlyOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	for i := range 3 {
		r.worker(fmt.Sprint("w", i), nil)
	}
	outcomes := []schedulerv1.Outcome{ok, rejected, schedulerv1.Outcome_OUTCOME_CANCELLED, ok}
	for i := range 1000 {
		resp := r.route(ask(prompt(fmt.Sprint(i), 3)))
		if i%3 > 0 {
			r.engine.Progress(&schedulerv1.ProgressRequest{Reservation: resp.GetReservation()})
		}
		for range 2 {
			r.end(resp, outcomes[i%len(outcomes)], -1)
		}
	}
	require.Zero(t, r.ledger.Open())
	require.Len(t, r.watch.ended, 1000)
	for _, target := range r.fleet.View().Targets {
		requests, queued := target.Inflight(r.clock.Now())
		require.Zero(t, requests)
		require.Zero(t, queued)
	}
	r.end(&schedulerv1.RouteResponse{Reservation: 424242}, ok, -1)
	r.engine.Progress(&schedulerv1.ProgressRequest{Reservation: 424242})
}

func TestAbandonedReservationsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("w", nil)
	r.route(ask(nil))
	r.clock.Advance(2 * time.Hour)
	for _, b := range r.ledger.Expire(r.clock.Now()) {
		r.engine.Abandon(b)
	}
	require.Zero(t, r.ledger.Open())
	require.Equal(t, schedulerv1.Outcome_OUTCOME_CANCELLED, r.watch.ended[0].Outcome)
}

// TestUnknownModelsLeaveNoTrace: OPS-02. Names of clients' choosing are not remembered.
func TestUnknownModelsLeaveNoTrace(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("w", nil)
	for i := range 100 {
		req := ask(nil)
		req.Model = fmt.Sprint("fake", i)
		_, err := r.engine.Route(t.Context(), req)
		require.Equal(t, faultv1.Reason_REASON_MODEL_NOT_FOUND, fault.ReasonOf(err))
		_, err = r.engine.Explain(req)
		require.Equal(t, faultv1.Reason_REASON_MODEL_NOT_FOUND, fault.ReasonOf(err))
	}
	require.Empty(t, r.engine.outputs.means)
	r.end(r.route(ask(nil)), ok, -1)
	require.Len(t, r.engine.outputs.means, 1)
	require.True(t, r.fleet.Gone("w"))
	r.engine.Forget()
	require.Empty(t, r.engine.outputs.means)
	_, err := r.engine.Route(t.Context(), ask(nil))
	require.Equal(t, faultv1.Reason_REASON_NO_WORKER, fault.ReasonOf(err), "known, and away")
}

func TestOutputLengthsAreLearnt(t *testing.T) {
	t.Parallel()
	o := outputs{means: map[string]float64{}}
	require.Equal(t, priorOutput, o.expect("m", 0))
	require.Equal(t, 50, o.expect("m", 50))
	for range 1000 {
		o.learn("m", 20)
	}
	require.InDelta(t, 20, o.expect("m", 4096), 1)
	require.Equal(t, 7, o.expect("m", 7))
}
