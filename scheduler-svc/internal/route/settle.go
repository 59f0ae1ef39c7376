package route

import (
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/breaker"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/fleet"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy/load"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/receipt"
)

// Booked is what the engine wants back when a reservation ends.
type Booked struct {
	Model     string
	Predicted int // hit tokens
	Prompt    int
	Certainty policy.Certainty
	Arrived   time.Time
	Units     []uint64 // of the prompt, if Config.KeepUnits; not to be written
	UnitSize  int      // tokens

	id        uint64
	held      int // tokens of the prompt that the target held, in whole blocks
	target    *fleet.Target
	line      string // of the queue
	tenant    string
	session   uint64
	wentHome  bool
	guessed   bool // hashes that no event can confirm count towards the prediction
	sequences int
	record    *receipt.Record
}

// Record is the reservation's receipt; read it through its store.
func (b *Booked) Record() *receipt.Record { return b.record }

// Ending is how a reservation ended.
type Ending struct {
	Outcome   schedulerv1.Outcome
	Actual    int // hit tokens by the worker's own count
	HasActual bool
	TTFTUS    uint32
	Output    int // tokens
}

// Progress books the first token. An unknown or ended reservation is no error: it may have been settled meanwhile.
func (e *Engine) Progress(req *schedulerv1.ProgressRequest) {
	e.p.Ledger.First(e.p.Now(), req.GetReservation())
}

// Settle ends a reservation once; later calls do nothing.
func (e *Engine) Settle(req *schedulerv1.SettleRequest) {
	now := e.p.Now()
	outcome := req.GetOutcome()
	if outcome == schedulerv1.Outcome_OUTCOME_UNSPECIFIED {
		outcome = schedulerv1.Outcome_OUTCOME_FAILED
	}
	s := load.Settle{
		CachedTokens: load.Unknown, OutputTokens: int(req.GetOutputTokens()),
		Complete: outcome == schedulerv1.Outcome_OUTCOME_OK,
	}
	if req.CachedTokens != nil {
		s.CachedTokens = int(req.GetCachedTokens())
	}
	b, ok := e.p.Ledger.Settle(now, req.GetReservation(), s)
	if !ok {
		return
	}
	b.target.Breaker.Done(now, b.id, verdict(outcome))
	if outcome == schedulerv1.Outcome_OUTCOME_BUSY {
		b.target.Busy(now)
	}
	e.ended(b, Ending{
		Outcome: outcome, Actual: int(req.GetCachedTokens()), HasActual: req.CachedTokens != nil, TTFTUS: req.GetTtftUs(),
		Output: int(req.GetOutputTokens()),
	}, req.GetOutputTokens())
}

// Abandon ends what its owner never settled: the ledger has given it up already.
func (e *Engine) Abandon(b *Booked) {
	b.target.Breaker.Done(e.p.Now(), b.id, breaker.Silent)
	e.ended(b, Ending{Outcome: schedulerv1.Outcome_OUTCOME_CANCELLED}, 0)
}

func (e *Engine) ended(b *Booked, end Ending, outputTokens uint32) {
	if end.Outcome == schedulerv1.Outcome_OUTCOME_OK {
		e.outputs.learn(b.Model, int(outputTokens)/b.sequences)
		if end.HasActual && b.sequences == 1 {
			if b.Certainty != policy.Fallback && !b.guessed { // a guess that fails says nothing of the target's events
				b.target.Drift.Observe(b.Predicted, end.Actual)
				if b.target.Withheld.Observe(b.held, end.Actual, int(b.target.Card().GetBlockTokens())) {
					b.target.Drift.Forget()
				}
			}
			e.sessions.served(b.session, b.wentHome, end.Actual > 0)
		}
	}
	tenants := e.p.Queue.Tenants()
	tenants.ChargeOutput(b.tenant, int(outputTokens))
	tenants.End(b.tenant)
	e.p.Receipts.Settle(b.record, receipt.Result{
		Outcome: end.Outcome, ActualTokens: uint32(end.Actual), HasActual: end.HasActual,
		TTFTUS: end.TTFTUS, OutputTokens: outputTokens,
	})
	e.p.Queue.Freed(e.p.Now(), b.line)
	e.p.Observe.Settled(b, end)
}

func verdict(o schedulerv1.Outcome) breaker.Verdict {
	switch o {
	case schedulerv1.Outcome_OUTCOME_FAILED:
		return breaker.Failed
	case schedulerv1.Outcome_OUTCOME_CANCELLED:
		return breaker.Silent
	default:
		return breaker.Alive
	}
}

// outputs learns the mean length of answers per model: the mean is enough for a booking, the truth is not to be had.
type outputs struct {
	mu    sync.Mutex
	means map[string]float64
}

// priorOutput is the mean before the first answer, and outputWindow the answers it is taken over.
const (
	priorOutput  = 256
	outputWindow = 64
)

func (o *outputs) expect(model string, limit int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	mean, ok := o.means[model]
	if !ok {
		mean = priorOutput
	}
	if limit > 0 {
		return min(limit, max(1, int(mean)))
	}
	return max(1, int(mean))
}

func (o *outputs) learn(model string, tokens int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	mean, ok := o.means[model]
	if !ok {
		mean = priorOutput
	}
	o.means[model] = mean + (float64(tokens)-mean)/outputWindow
}

func (o *outputs) forget(served func(string) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for model := range o.means {
		if !served(model) {
			delete(o.means, model)
		}
	}
}
