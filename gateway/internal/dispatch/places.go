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

// maxExcluded is how many targets a route may exclude; the scheduler takes 64.
const maxExcluded = 60

// places bounds the calls that run at one worker, whatever their models and requests. A limit of 0 counts nothing.
type places struct {
	limit int

	mu    sync.Mutex
	taken map[string]int
	freed chan struct{} // closed and replaced when a place is given back
}

func newPlaces(limit int) *places {
	return &places{limit: limit, taken: map[string]int{}, freed: make(chan struct{})}
}

// take counts one more call at a worker, if there is room.
func (p *places) take(worker string) bool {
	if p.limit == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[worker] >= p.limit {
		return false
	}
	p.taken[worker]++
	return true
}

// give takes a call off the count.
func (p *places) give(worker string) {
	if p.limit == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[worker]--; p.taken[worker] <= 0 {
		delete(p.taken, worker)
	}
	close(p.freed)
	p.freed = make(chan struct{})
}

// next is closed when a place is given back from now on.
func (p *places) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.freed
}

// named says who will settle what is booked.
func (d *Dispatcher) named(r *schedulerv1.RouteRequest) *schedulerv1.RouteRequest {
	r.Gateway = d.cfg.Gateway
	return r
}

// route asks the scheduler for a target that has a place. While all have none it waits, at most Config.PlaceWait.
func (d *Dispatcher) route(ctx context.Context, j *Job, exclude []*schedulerv1.Target, n int) (
	*schedulerv1.RouteResponse, error,
) {
	if d.places.limit == 0 {
		return d.scheduler.Route(ctx, d.named(j.routeRequest(exclude, n)))
	}
	var late <-chan time.Time
	if d.cfg.PlaceWait > 0 {
		t := time.NewTimer(d.cfg.PlaceWait)
		defer t.Stop()
		late = t.C
	}
	full := slices.Clone(exclude)
	for {
		freed := d.places.next()
		r, err := d.scheduler.Route(ctx, d.named(j.routeRequest(full, n)))
		if err != nil && len(full) == len(exclude) {
			return nil, err
		}
		if err == nil {
			if d.places.take(r.GetTarget().GetWorkerId()) {
				return r, nil
			}
			unused := newLease(ctx, d, r)
			unused.held = ""
			unused.Settle(Result{Outcome: schedulerv1.Outcome_OUTCOME_CANCELLED})
			if full = append(full, r.GetTarget()); len(full) < maxExcluded {
				continue
			}
		}
		select {
		case <-freed:
			full = full[:len(exclude)]
		case <-ctx.Done():
			return nil, ended(ctx)
		case <-late:
			return nil, fault.New(faultv1.Reason_REASON_OVERLOADED,
				"Every worker of the model has as many requests as it may; try again later.").WithRetryAfter(time.Second)
		}
	}
}
