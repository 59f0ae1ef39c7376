package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

// Plan is what is common to the rows of a comparison.
type Plan struct {
	Policies []string
	Options  policy.Options
	Profile  Profile
	Workers  int
	Seed     uint64
	Poll     time.Duration
}

// Table is one cell under all policies, with what bounds them.
type Table struct {
	Cell      string    `json:"cell"`
	Note      string    `json:"note"`
	Profile   string    `json:"profile"`
	Workers   int       `json:"workers"`
	KVTokens  int       `json:"kv_tokens"` // of one worker
	Speedup   float64   `json:"speedup"`
	SpreadS   float64   `json:"spread_s"`
	Seed      uint64    `json:"seed"`
	Runs      int       `json:"runs"`
	Requests  int       `json:"requests"` // of one run
	Overload  bool      `json:"overload"`
	Apart     bool      `json:"apart"`
	HInf      float64   `json:"h_inf"`       // hit share of an infinite cache
	HLRU      float64   `json:"h_lru"`       // of one LRU with the pool's capacity
	HPooled   float64   `json:"h_pooled"`    // of one worker as big and fast as the pool: what runs holds cache
	FloorP90S float64   `json:"floor_p90_s"` // TTFT p90 of the last stage with every prompt cached everywhere and no limit
	Rows      []*Result `json:"rows"`
}

// Compare runs all policies on the cell's workloads, the same arrivals for each, and averages over its workloads. It stops
// between two runs when ctx has ended.
func Compare(ctx context.Context, c Cell, p Plan) (*Table, error) {
	kv := c.KVTokens
	if kv == 0 {
		kv = p.Profile.KVTokens
	}
	t := &Table{
		Cell: c.Name, Note: c.Note, Profile: p.Profile.Name, Workers: p.Workers, KVTokens: kv, Speedup: c.Speedup,
		SpreadS: c.Spread.Seconds(), Seed: p.Seed, Runs: len(c.Workloads), Requests: c.Workloads[0].Requests(),
		Overload: c.Overload, Apart: c.Apart,
	}
	base := Config{Profile: p.Profile, Workers: p.Workers, KVTokens: kv, Options: p.Options, Seed: p.Seed, Poll: p.Poll}
	for _, w := range c.Workloads {
		t.HInf += PooledLRU(w, 0) / float64(t.Runs)
		t.HLRU += PooledLRU(w, kv*p.Workers) / float64(t.Runs)
	}
	pooled, err := mean(ctx, c.Workloads, pooledWorker(base))
	if err != nil {
		return nil, err
	}
	floor, err := mean(ctx, c.Workloads, noQueue(base, c.Workloads[0]))
	if err != nil {
		return nil, err
	}
	t.HPooled, t.FloorP90S = pooled.Hit, floor.LastStage.P90
	for _, name := range p.Policies {
		cfg := base
		cfg.Policy = name
		r, err := mean(ctx, c.Workloads, cfg)
		if err != nil {
			return nil, err
		}
		if t.HLRU > 0 {
			r.Eta = r.Hit / t.HLRU
		}
		t.Rows = append(t.Rows, r)
	}
	t.regret()
	return t, nil
}

// pooledWorker is the whole pool as one worker: what no split of the same hardware can beat in hits.
func pooledWorker(c Config) Config {
	n := float64(c.Workers)
	c.KVTokens *= c.Workers
	c.Profile.BudgetToks *= c.Workers
	c.Profile.MaxSeqs *= c.Workers
	for _, x := range []*float64{&c.Profile.PrefillS, &c.Profile.PrefillCtxS, &c.Profile.SeqS, &c.Profile.KVS} {
		*x /= n
	}
	c.Workers, c.Policy = 1, "round-robin"
	return c
}

// noQueue is the pool with every prompt cached everywhere and no limit of memory: a first token waits for nothing but
// the step under way and its own.
func noQueue(c Config, w *Workload) Config {
	c.Warm, c.Policy = true, "least-requests"
	c.KVTokens = w.Distinct*w.UnitTokens + 1<<30
	c.Profile.MaxSeqs = 1 << 20
	return c
}

// mean runs the configuration on each workload and averages the figures.
func mean(ctx context.Context, workloads []*Workload, c Config) (*Result, error) {
	var rs []*Result
	for _, w := range workloads {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.Workload = w
		r, err := Run(c)
		if err != nil {
			return nil, fmt.Errorf("simulate %s under %s: %w", w.Name, c.Policy, err)
		}
		rs = append(rs, r)
	}
	return average(rs), nil
}

// regret sets each row's factor to the best row, for mean and p90 TTFT.
func (t *Table) regret() {
	if len(t.Rows) == 0 {
		return
	}
	bestMean, bestP90 := t.Rows[0].TTFT.Mean, t.Rows[0].TTFT.P90
	for _, r := range t.Rows {
		bestMean, bestP90 = min(bestMean, r.TTFT.Mean), min(bestP90, r.TTFT.P90)
	}
	for _, r := range t.Rows {
		r.RegretMean, r.RegretP90 = ratio(r.TTFT.Mean, bestMean), ratio(r.TTFT.P90, bestP90)
	}
}

// ratio is 1 where nothing was served and there is nothing to compare.
func ratio(x, best float64) float64 {
	if best == 0 {
		return 1
	}
	return x / best
}

// Row returns the policy's row, or nil.
func (t *Table) Row(name string) *Result {
	for _, r := range t.Rows {
		if r.Policy == name {
			return r
		}
	}
	return nil
}
