package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/learn"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy/load"
)

// router is the scheduler's side of the simulation: what it knows of each worker, and the live policy.
type router struct {
	cfg     *Config
	policy  policy.Policy
	predict policy.Predictor
	workers []*worker
	targets []target
	views   []policy.View
	ranking policy.Ranking
	rng     *rand.Rand
	open    map[int]ticket // by request; looked up, never ranged over
	seq     uint64
	output  ewma
}

// priorOutput is the expected answer before the first one has ended, tokens.
const priorOutput = 256

// target is the router's knowledge of one worker.
type target struct {
	ledger  *load.Ledger
	inserts []uint16 // by unit: speculative references of requests without a first token
	last    uint64
	polled  int64
}

type ticket struct {
	target  int
	booking load.Ticket
	units   []uint32
	hit     int
}

func newRouter(cfg *Config, p policy.Policy, workers []*worker) *router {
	r := &router{
		cfg: cfg, policy: p, predict: policy.NewPredictor(cfg.Options), workers: workers,
		targets: make([]target, len(workers)), views: make([]policy.View, len(workers)),
		rng: rand.New(rand.NewPCG(cfg.Seed, 0x7e1e)), open: make(map[int]ticket),
		output: ewma{value: priorOutput},
	}
	for i := range r.targets {
		r.targets[i].inserts = make([]uint16, cfg.Workload.Distinct)
		prior := cfg.Prior
		if prior == (learn.Coefficients{}) {
			prior = learn.Prior()
		}
		r.targets[i].ledger = load.New(prior)
		r.targets[i].polled = -1
	}
	return r
}

// observe takes a worker's report for the last poll instant before its state changes at now.
func (r *router) observe(w int, now time.Duration) {
	t := &r.targets[w]
	if poll := int64(now / r.cfg.Poll); poll > t.polled {
		t.polled = poll
		x := r.workers[w]
		t.ledger.Report(time.Duration(poll)*r.cfg.Poll, x.pool.used(), x.waiting.len(), len(x.running))
	}
}

// route decides where the arrival goes and books it. It returns the worker and the predicted hit.
func (r *router) route(now time.Duration, id int, a *Arrival) (int, int) {
	r.seq++
	req := policy.Request{
		PromptTokens: a.Prompt, OutputTokensExpected: int(r.output.value), Seed: r.rng.Uint64(),
	}
	if len(a.Units) > 0 {
		req.Key = uint64(a.Units[min(1, len(a.Units)-1)]) + 1
	}
	for i := range r.views {
		r.observe(i, now)
		t, v := &r.targets[i], &r.views[i]
		*v = policy.View{
			Target: i, ID: uint64(i) + 1, HitTokens: r.hit(i, a), LastDispatch: t.last,
			KVCapacityTokens: r.cfg.Profile.KVTokens,
		}
		pl := r.workers[i].pool
		v.CachedTokens = (pl.held + pl.idle) * r.cfg.Workload.UnitTokens
		t.ledger.Fill(now, a.Prompt, v)
	}
	r.policy.Rank(&req, r.views, &r.ranking)
	best := r.ranking.Scored[0].Target
	t := &r.targets[best]
	t.last = r.seq
	booking := t.ledger.Dispatch(now, load.Entry{
		PromptTokens: a.Prompt, UncachedTokens: r.predict.Uncached(&req, &r.views[best]),
		OutputTokens: req.OutputTokensExpected, AdmitS: r.views[best].AdmitS,
	})
	for _, u := range a.Units {
		t.inserts[u]++
	}
	r.open[id] = ticket{target: best, booking: booking, units: a.Units}
	return best, r.views[best].HitTokens
}

// hit walks the prompt's units while the worker holds them, by event or by a speculative insert.
func (r *router) hit(w int, a *Arrival) int {
	refs, inserts := r.workers[w].pool.refs, r.targets[w].inserts
	unit := r.cfg.Workload.UnitTokens
	n, most := 0, min(len(a.Units), (a.Prompt-1)/unit)
	for n < most && (refs[a.Units[n]] != absent || inserts[a.Units[n]] > 0) {
		n++
	}
	return n * unit
}

func (r *router) firstToken(now time.Duration, id, hit int) {
	k := r.open[id]
	t := &r.targets[k.target]
	t.ledger.First(now, k.booking)
	for _, u := range k.units {
		t.inserts[u]--
	}
	k.hit = hit
	r.open[id] = k
}

func (r *router) ended(now time.Duration, id, output int) {
	k := r.open[id]
	t := &r.targets[k.target]
	t.ledger.End(now, k.booking, load.Settle{CachedTokens: k.hit, OutputTokens: output, Complete: true})
	r.output.add(float64(output), 0.01)
	delete(r.open, id)
}

// ewma is an exponentially weighted mean.
type ewma struct{ value float64 }

func (m *ewma) add(x, weight float64) { m.value += float64(weight * (x - m.value)) }
