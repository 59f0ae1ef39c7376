package simulate

import (
	"fmt"
	"math"
	"time"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/learn"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

// Config is one simulation: a workload on identical workers under one policy.
type Config struct {
	Workload *Workload
	Profile  Profile
	Workers  int
	KVTokens int // capacity of one worker; 0 is the profile's
	Policy   string
	Options  policy.Options
	Seed     uint64             // ties and draws of the policy
	Poll     time.Duration      // period of the workers' reports
	Warm     bool               // every unit is cached on every worker at the start
	Prior    learn.Coefficients // what the router believes of the workers before it learns; zero is learn.Prior
}

// outcome is what happened to one request.
type outcome struct {
	arrived   time.Duration
	first     time.Duration // 0 until known
	ended     time.Duration
	prompt    int
	output    int
	hit       int
	predicted int
	worker    int
	stage     int
	warmup    bool
	failed    bool
}

// run is the state of one simulation.
type run struct {
	cfg     Config
	workers []*worker
	router  *router
	results []outcome
	now     time.Duration
	live    int
	balance balance

	stageIndex int
}

// Run simulates to the end of the last request.
func Run(cfg Config) (*Result, error) {
	r, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	r.all()
	return r.result(), nil
}

// prepare builds an idle pool and its router.
func prepare(cfg Config) (*run, error) {
	if cfg.KVTokens > 0 {
		cfg.Profile.KVTokens = cfg.KVTokens
	}
	if cfg.Workload.UnitTokens%cfg.Profile.BlockTokens != 0 {
		cfg.Profile.BlockTokens = cfg.Workload.UnitTokens
	}
	if cfg.Workers < 1 || cfg.Profile.KVTokens < cfg.Workload.UnitTokens {
		return nil, fmt.Errorf("simulate %d workers of %d KV tokens: too small", cfg.Workers, cfg.Profile.KVTokens)
	}
	pol, err := policy.New(cfg.Policy, cfg.Options)
	if err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, results: make([]outcome, 0, cfg.Workload.Requests())}
	for range cfg.Workers {
		w := newWorker(cfg.Profile, cfg.Workload)
		if cfg.Warm {
			w.pool.warm()
		}
		r.workers = append(r.workers, w)
	}
	r.router = newRouter(&r.cfg, pol, r.workers)
	return r, nil
}

func (r *run) all() {
	for i := range r.cfg.Workload.Stages {
		r.stageIndex = i
		r.stage(&r.cfg.Workload.Stages[i])
	}
}

// stage replays one stage and drains it.
func (r *run) stage(s *Stage) {
	base := r.now
	next := 0
	for next < len(s.Arrivals) || r.live > 0 {
		w, end := r.nextEnd()
		if next < len(s.Arrivals) {
			if at := base + s.Arrivals[next].At; at <= end {
				r.tick(at)
				r.arrive(&s.Arrivals[next])
				next++
				continue
			}
		}
		r.tick(end)
		r.router.observe(w, r.now)
		r.workers[w].end(r)
		r.workers[w].begin(r.now)
	}
	r.now += s.Pause
}

func (r *run) tick(at time.Duration) {
	r.balance.hold(r, at-r.now)
	r.now = at
}

// nextEnd returns the worker whose step ends first, the lowest index among equals.
func (r *run) nextEnd() (int, time.Duration) {
	best, end := -1, time.Duration(math.MaxInt64)
	for i, w := range r.workers {
		if w.busy && w.stepEnd < end {
			best, end = i, w.stepEnd
		}
	}
	return best, end
}

func (r *run) arrive(a *Arrival) {
	id := len(r.results)
	r.results = append(r.results, outcome{
		arrived: r.now, prompt: a.Prompt, output: a.Output, warmup: a.Warmup, stage: r.stageIndex,
	})
	o := &r.results[id]
	if !r.workers[0].fits(a.Prompt, a.Output) {
		o.failed = true
		return
	}
	o.worker, o.predicted = r.router.route(r.now, id, a)
	r.live++
	w := r.workers[o.worker]
	r.router.observe(o.worker, r.now)
	w.waiting.push(&sequence{id: id, units: a.Units, length: a.Prompt, prompt: a.Prompt, output: a.Output})
	if !w.busy {
		w.begin(r.now)
	}
}

func (r *run) firstToken(_ *worker, s *sequence) {
	o := &r.results[s.id]
	o.first, o.hit = r.now, s.hit
	r.router.firstToken(r.now, s.id, s.hit)
}

func (r *run) ended(_ *worker, s *sequence) {
	r.results[s.id].ended = r.now
	r.live--
	r.router.ended(r.now, s.id, s.output)
}
