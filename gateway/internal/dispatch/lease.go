package dispatch

import (
	"context"
	"time"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/deadline"
)

// reportTimeout bounds a Progress or Settle call. They are made while the client waits for nothing.
const reportTimeout = time.Second

// Result is what a settle reports about an attempt.
type Result struct {
	// Outcome is how it ended.
	Outcome schedulerv1.Outcome
	// Status is the worker's HTTP status, 0 when none came.
	Status int
	// PromptTokens, OutputTokens are the worker's counts.
	PromptTokens, OutputTokens int64
	// CachedTokens is the worker's own, when HasCached.
	CachedTokens int64
	HasCached    bool
}

// Lease is one reservation. It is settled exactly once: the first Settle counts, Close settles what nobody has.
type Lease struct {
	// Route is the scheduler's answer.
	Route *schedulerv1.RouteResponse

	client  schedulerv1.SchedulerServiceClient
	ctx     context.Context
	note    func(outcome string)
	start   time.Time
	first   time.Time
	settled bool
	// unbooked tells that there is no reservation: the call is watched, and nothing is reported.
	unbooked bool
	places   *places
	held     string // the worker whose place this is, empty for none
	watch    watch
}

// newLease starts the clock of an attempt. Reports outlive the request's context.
func newLease(ctx context.Context, d *Dispatcher, r *schedulerv1.RouteResponse) *Lease {
	return &Lease{
		Route: r, client: d.scheduler, ctx: context.WithoutCancel(ctx), note: d.tel.Attempted, start: time.Now(),
		places: d.places, held: r.GetTarget().GetWorkerId(),
	}
}

// FirstToken marks the end of prefill; the first call counts.
func (l *Lease) FirstToken() {
	if l.first.IsZero() {
		l.first = time.Now()
	}
}

// TTFT is dispatch to first token, 0 while there is none.
func (l *Lease) TTFT() time.Duration {
	if l.first.IsZero() {
		return 0
	}
	return l.first.Sub(l.start)
}

// Progress reports the first token. A scheduler that does not take it loses nothing but accuracy.
func (l *Lease) Progress() {
	if l.unbooked {
		return
	}
	ctx := deadline.With(l.ctx, reportTimeout)
	defer ctx.End()
	_, _ = l.client.Progress(ctx, &schedulerv1.ProgressRequest{
		Reservation: l.Route.GetReservation(), TtftUs: uint32(l.TTFT().Microseconds()),
	})
}

// Settle ends the reservation.
func (l *Lease) Settle(r Result) {
	if l.settled {
		return
	}
	l.settled = true
	l.watch.end()
	if l.unbooked {
		return
	}
	if l.held != "" {
		l.places.give(l.held)
	}
	l.note(outcomeWord(r.Outcome))
	req := &schedulerv1.SettleRequest{
		Reservation: l.Route.GetReservation(), Outcome: r.Outcome, OutputTokens: uint32(r.OutputTokens),
		TtftUs: uint32(l.TTFT().Microseconds()), DurationUs: uint64(time.Since(l.start).Microseconds()),
		HttpStatus: uint32(r.Status),
	}
	if r.HasCached {
		cached := uint32(r.CachedTokens)
		req.CachedTokens = &cached
	}
	if r.PromptTokens > 0 {
		tokens := uint32(r.PromptTokens)
		req.PromptTokens = &tokens
	}
	ctx := deadline.With(l.ctx, reportTimeout)
	defer ctx.End()
	_, _ = l.client.Settle(ctx, req)
}

func outcomeWord(o schedulerv1.Outcome) string {
	switch o {
	case schedulerv1.Outcome_OUTCOME_OK:
		return "ok"
	case schedulerv1.Outcome_OUTCOME_REJECTED:
		return "rejected"
	case schedulerv1.Outcome_OUTCOME_BUSY:
		return "busy"
	case schedulerv1.Outcome_OUTCOME_CANCELLED:
		return "cancelled"
	default:
		return "failed"
	}
}
