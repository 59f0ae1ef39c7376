package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// Hedge says when a second worker is asked while the first has given no byte. Zero delay and quantile never do.
type Hedge struct {
	// Delay is how long the first byte may take, at least.
	Delay time.Duration
	// Quantile waits as long as this share of recent first bytes took, when that is longer than Delay.
	Quantile float64
	// Budget is the share of requests that may be hedged.
	Budget float64
}

// On tells whether requests are hedged at all.
func (h Hedge) On() bool { return h.Delay > 0 || h.Quantile > 0 }

// Samples of first bytes: enough for a 0.99 quantile, few enough to follow a change of load within a minute.
const (
	hedgeSamples = 512
	// hedgeLeast is how many samples a quantile needs; until then only a configured delay counts.
	hedgeLeast = 32
	// hedgeBurst is how many hedges an unused budget saves up.
	hedgeBurst = 8
)

// hedger decides when and whether to hedge. mu guards all below it.
type hedger struct {
	cfg Hedge

	mu      sync.Mutex
	times   [hedgeSamples]time.Duration
	seen    int
	wait    time.Duration // the quantile at the last look
	looked  int
	savings float64
}

// delay is how long to wait for the first byte; ok is false when there is nothing to go by yet. It pays the request's
// share into the budget.
func (h *hedger) delay() (d time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.savings = min(hedgeBurst, h.savings+h.cfg.Budget)
	if h.cfg.Quantile == 0 {
		return h.cfg.Delay, true
	}
	if h.seen < hedgeLeast {
		return h.cfg.Delay, h.cfg.Delay > 0
	}
	if h.looked == 0 || h.seen-h.looked >= hedgeLeast {
		n := min(h.seen, hedgeSamples)
		sorted := slices.Clone(h.times[:n])
		slices.Sort(sorted)
		h.wait, h.looked = sorted[min(n-1, int(h.cfg.Quantile*float64(n)))], h.seen
	}
	return max(h.wait, h.cfg.Delay), true
}

// spend takes one hedge out of the budget.
func (h *hedger) spend() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.savings < 1 {
		return false
	}
	h.savings--
	return true
}

// observe takes a first byte's time.
func (h *hedger) observe(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.times[h.seen%hedgeSamples] = d
	h.seen++
}

// try makes an attempt at a target, and where hedging is on a second one beside it when the first byte is late. more is
// the second's target when there was one.
func (d *Dispatcher) try(ctx context.Context, j *Job, r *schedulerv1.RouteResponse, n int) (
	a *Answer, more *schedulerv1.Target, err error,
) {
	if !d.cfg.Hedge.On() || n > 1 {
		a, err = d.attempt(ctx, j, newLease(ctx, d, r), n)
		return a, nil, err
	}
	wait, ok := d.hedge.delay()
	race := &race{d: d, ctx: ctx, job: j, ends: make(chan *lap, 2)}
	race.start(r, n)
	if ok {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case l := <-race.ends:
			return l.answer, nil, l.err
		case <-ctx.Done():
		case <-t.C:
			more = race.second(r, n+1)
		}
	}
	a, err = race.finish()
	return a, more, err
}

// race is a request's attempts that run side by side.
type race struct {
	d    *Dispatcher
	ctx  context.Context
	job  *Job
	laps []*lap
	ends chan *lap
}

// lap is one of them. Its goroutine ends with the attempt's first byte or failure.
type lap struct {
	cancel context.CancelFunc
	answer *Answer
	err    error
}

func (r *race) start(route *schedulerv1.RouteResponse, n int) {
	ctx, cancel := context.WithCancel(r.ctx)
	l := &lap{cancel: cancel}
	r.laps = append(r.laps, l)
	lease := newLease(ctx, r.d, route)
	r.d.drains.wg.Go(func() {
		l.answer, l.err = r.d.attempt(ctx, r.job, lease, n)
		if l.answer != nil {
			l.answer.cancel = cancel
		} else {
			cancel()
		}
		r.ends <- l
	})
}

// second starts the attempt beside the first, if the budget and the scheduler have one.
func (r *race) second(first *schedulerv1.RouteResponse, n int) *schedulerv1.Target {
	if !r.d.hedge.spend() {
		return nil
	}
	q := r.job.routeRequest([]*schedulerv1.Target{first.GetTarget()}, n)
	q.Kind = schedulerv1.AttemptKind_ATTEMPT_KIND_HEDGE
	route, err := r.d.scheduler.Route(r.ctx, r.d.named(q))
	if err != nil {
		return nil
	}
	if !r.d.places.take(route.GetTarget().GetWorkerId()) {
		unused := newLease(r.ctx, r.d, route)
		unused.held = ""
		unused.Settle(Result{Outcome: schedulerv1.Outcome_OUTCOME_CANCELLED})
		return nil
	}
	r.d.tel.Hedged("sent")
	r.start(route, n)
	return route.GetTarget()
}

// finish waits for the first good end and cancels the other attempt; without a good one it gives the last.
func (r *race) finish() (*Answer, error) {
	var refused *Answer
	for left := len(r.laps); ; left-- {
		l := <-r.ends
		switch {
		case l.err == nil && !l.answer.retryable:
			if left > 1 {
				r.drop(l)
			}
			if len(r.laps) > 1 && l == r.laps[1] {
				r.d.tel.Hedged("won")
			}
			return l.answer, nil
		case l.err == nil:
			l.cancel() // such an answer is whole
			refused = l.answer
		}
		switch {
		case left > 1:
		case refused != nil:
			return refused, nil
		default:
			return nil, l.err
		}
	}
}

// errSlower ends an attempt whose other was faster.
func errSlower() error {
	return fault.New(faultv1.Reason_REASON_CANCELLED, "Another worker was faster.")
}

// drop cancels the other lap: its connection closes at once, and its reservation is settled by the goroutine that waits.
func (r *race) drop(winner *lap) {
	for _, l := range r.laps {
		if l != winner {
			l.cancel()
		}
	}
	r.d.drains.wg.Go(func() {
		if l := <-r.ends; l.answer != nil {
			l.answer.Close(r.d, errSlower())
		}
	})
}
