package route

import (
	"context"
	"errors"
	"time"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/admit"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/fleet"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/ledger"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/receipt"
)

// Result says what came of a route.
type Result uint8

// The results, as metrics spell them.
const (
	Placed Result = iota
	UnknownModel
	NoWorker
	QueueFull
	TooLate // its deadline would pass in the queue
	Left    // the caller went away
)

// String returns the spelling.
func (r Result) String() string {
	return [...]string{"placed", "unknown_model", "no_worker", "queue_full", "too_late", "left"}[r]
}

// Decision is what an observer is told of a route.
type Decision struct {
	Result     Result
	Certainty  policy.Certainty
	Took       time.Duration // of the last attempt, without the queue
	Queued     time.Duration
	Prompt     int
	Hit        int
	Candidates int
}

// Route chooses a target and books the request on it. It waits in the queue while all that could take it are full.
func (e *Engine) Route(ctx context.Context, req *schedulerv1.RouteRequest) (*schedulerv1.RouteResponse, error) {
	pool, result, err := e.pool(req.GetModel())
	if err != nil {
		e.p.Observe.Decided(Decision{Result: result})
		return nil, err
	}
	d := e.scratch.Get().(*decision)
	defer e.scratch.Put(d)
	defer d.done()
	e.prepare(d, req, pool)
	e.p.Queue.Tenants().Begin(req.GetTenant())
	resp, out, err := e.place(ctx, d)
	if err != nil {
		e.p.Queue.Tenants().End(req.GetTenant())
	}
	e.p.Observe.Decided(out)
	return resp, err
}

// pool finds the model's targets. A model whose workers have all left is known still: it may come back.
func (e *Engine) pool(model string) (*fleet.Pool, Result, error) {
	v := e.p.Fleet.View()
	if p := v.Pools[model]; p != nil {
		return p, Placed, nil
	}
	if v.Past(model) {
		return nil, NoWorker, fault.New(faultv1.Reason_REASON_NO_WORKER, "all workers that serve the model are away").
			WithRetryAfter(e.cfg.NoWorkerRetry)
	}
	return nil, UnknownModel, fault.New(faultv1.Reason_REASON_MODEL_NOT_FOUND, "the model is not served by any worker").
		WithParam("model")
}

// place decides now, or as often as the request's turn comes.
func (e *Engine) place(ctx context.Context, d *decision) (*schedulerv1.RouteResponse, Decision, error) {
	began := e.p.Now()
	look := e.p.Queue.Look(d.pool.Line, d.req.GetModel(), d.req.GetPriority())
	if !look.Behind {
		resp, out := e.attempt(d, began)
		if resp != nil {
			return resp, out, nil
		}
		if !d.saturated() {
			return nil, out, e.noWorker(d)
		}
	}
	return e.waitInLine(ctx, d, arrival{began, look})
}

// arrival is when a request came and how its line stood then.
type arrival struct {
	at   time.Time
	look admit.Look
}

func (e *Engine) waitInLine(
	ctx context.Context, d *decision, came arrival,
) (*schedulerv1.RouteResponse, Decision, error) {
	model, line, began := d.req.GetModel(), d.pool.Line, came.at
	advice := e.p.Queue.RetryAfter(began, line)
	if deadline, ok := ctx.Deadline(); ok && e.p.Queue.Waiting() > 0 && deadline.Sub(began) < advice-e.cfg.QueueSlack {
		return nil, Decision{Result: TooLate}, overloaded("all workers are at capacity past the deadline", advice)
	}
	w := &admit.Waiter{
		Line: line, Model: model, Tenant: d.req.GetTenant(), Priority: d.req.GetPriority(), Peek: e.peek(d.req),
		Look: came.look, Narrow: !came.look.Behind && d.narrow(),
	}
	if !e.p.Queue.Enter(w) {
		return nil, Decision{Result: QueueFull}, overloaded("all workers are at capacity and the queue is full", advice)
	}
	placed := false
	defer func() { e.p.Queue.Leave(w, placed) }()
	for {
		if err := e.p.Queue.Wait(ctx, w); err != nil {
			return nil, Decision{Result: Left}, e.left(err, line)
		}
		if pool := e.p.Fleet.View().Pools[model]; pool != nil {
			d.pool = pool // workers may have come or gone
		}
		resp, out := e.attempt(d, began)
		if resp != nil {
			placed = true
			return resp, out, nil
		}
		if !d.saturated() {
			return nil, out, e.noWorker(d)
		}
		w.Narrow = d.narrow()
	}
}

// peek says how much of a prompt some worker holds. It keeps the request, not the decision, which is reused.
func (e *Engine) peek(req *schedulerv1.RouteRequest) func() int {
	units := req.GetUnitHashes()[:min(len(req.GetUnitHashes()), e.cfg.MaxUnits)]
	return func() int {
		d := e.scratch.Get().(*decision)
		defer e.scratch.Put(d)
		e.p.Index.Walk(units, &d.walk)
		return d.walk.Held() * unitTokens(req)
	}
}

func overloaded(text string, retry time.Duration) error {
	return fault.New(faultv1.Reason_REASON_OVERLOADED, "%s", text).WithRetryAfter(retry)
}

// left tells a caller that went away from one whose deadline passed while it waited: that one was held too long.
func (e *Engine) left(err error, line string) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return overloaded("all workers were at capacity until the deadline", e.p.Queue.RetryAfter(e.p.Now(), line))
	}
	return fault.Wrap(faultv1.Reason_REASON_CANCELLED, err, "left the queue")
}

func (e *Engine) noWorker(d *decision) error {
	e.p.Receipts.Put(e.record(d, nil, d.now))
	return fault.New(faultv1.Reason_REASON_NO_WORKER, "no worker that serves the model can take work now").
		WithRetryAfter(e.cfg.NoWorkerRetry)
}

// attempt decides once and books. The response is nil when no target could take the request.
func (e *Engine) attempt(d *decision, began time.Time) (*schedulerv1.RouteResponse, Decision) {
	now := e.p.Now()
	e.look(d, now)
	e.decide.Lock()
	e.weigh(d)
	best, ok := d.ranking.Best()
	if !ok {
		e.decide.Unlock()
		return nil, Decision{Result: NoWorker, Took: e.p.Now().Sub(now)}
	}
	t, v := d.pool.Targets[best.Target], &d.views[best.Target]
	booked := &Booked{
		target: t, line: d.pool.Line, tenant: d.req.GetTenant(), session: e.sessions.key(d.req), Model: d.req.GetModel(),
		Predicted: v.HitTokens, held: d.about[best.Target].held, Prompt: d.asked.PromptTokens, Certainty: v.Certainty, wentHome: v.SessionHome,
		sequences: int(max(1, d.req.GetSequences())), guessed: guessed(d.req),
		Arrived: began, UnitSize: unitTokens(d.req),
	}
	if e.cfg.KeepUnits {
		booked.Units = d.units
	}
	b := e.booking(d, best.Target, booked)
	id := e.p.Ledger.Reserve(now, t, b, booked)
	t.Breaker.Sent(now, id)
	e.decide.Unlock()
	booked.id = id
	booked.record = e.record(d, t, began)
	e.p.Receipts.Put(booked.record)
	e.sessions.sent(d.req, t.Key)
	e.p.Queue.Tenants().ChargeInput(booked.tenant, b.UncachedTokens, booked.Predicted)
	return e.response(d, booked, now.Sub(began)), Decision{
		Result: Placed, Certainty: v.Certainty, Took: e.p.Now().Sub(now), Queued: now.Sub(began),
		Prompt: booked.Prompt, Hit: booked.Predicted, Candidates: len(d.ranking.Scored),
	}
}

// booking is what the chosen target is charged with.
func (e *Engine) booking(d *decision, i int, b *Booked) ledger.Booking {
	v := &d.views[i]
	block := int(b.target.Card().GetBlockTokens())
	unit := unitTokens(d.req)
	units := len(d.units)
	if block > unit { // a block that the prompt does not fill is not announced
		units = min(units, b.Prompt/block*block/unit)
	}
	from := min(d.about[i].confirmed, units)
	return ledger.Booking{
		Worker: b.target.Key.Worker, Rank: b.target.Key.Rank,
		PromptTokens: b.Prompt, UncachedTokens: max(1, b.Prompt-v.HitTokens),
		OutputTokens: d.asked.OutputTokensExpected * b.sequences, AdmitS: v.AdmitS,
		Units: d.units[from:units],
		Keep:  guessed(d.req), Gateway: d.req.GetGateway(),
	}
}

// guessed tells whether some of the hashes are over bytes: events never confirm those, so they are remembered.
func guessed(req *schedulerv1.RouteRequest) bool {
	return req.GetCertainty() > schedulerv1.Certainty_CERTAINTY_EXACT
}

func (e *Engine) response(d *decision, b *Booked, queued time.Duration) *schedulerv1.RouteResponse {
	card := b.target.Card()
	return &schedulerv1.RouteResponse{
		Reservation: b.id, Target: receipt.TargetProto(b.target.Key), HttpUrl: card.GetHttpUrl(),
		SendRank: card.GetRanks() > 1, PredictedHitTokens: uint32(b.Predicted),
		Certainty: wire(b.Certainty), Policy: e.p.Policy.Name(), Reason: b.record.Reason,
		WorkerVersion: card.GetVersion(), TokenIdsMode: card.GetCapabilities().GetTokenIdsMode(),
		QueuedMs: uint32(queued.Milliseconds()), Candidates: uint32(len(d.ranking.Scored)),
	}
}

// Explain decides as Route would and books nothing.
func (e *Engine) Explain(req *schedulerv1.RouteRequest) (*schedulerv1.Receipt, error) {
	pool, _, err := e.pool(req.GetModel())
	if err != nil {
		return nil, err
	}
	d := e.scratch.Get().(*decision)
	defer e.scratch.Put(d)
	defer d.done()
	e.prepare(d, req, pool)
	now := e.p.Now()
	e.look(d, now)
	e.decide.Lock()
	e.weigh(d)
	e.decide.Unlock()
	var chosen *fleet.Target
	if best, ok := d.ranking.Best(); ok {
		chosen = pool.Targets[best.Target]
	}
	return e.record(d, chosen, now).Proto(), nil
}
