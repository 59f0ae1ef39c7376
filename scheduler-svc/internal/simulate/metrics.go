package simulate

import (
	"math"
	"slices"
	"time"
)

// Quantiles summarises one distribution. Percentiles take the sorted value at index floor(p*n).
type Quantiles struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
}

// Result is what a policy did to a workload. Times are seconds, of the requests that were served.
type Result struct {
	Policy       string    `json:"policy"`
	Requests     int       `json:"requests"` // counted ones
	Failed       int       `json:"failed"`   // of these, larger than a worker's cache, under any policy: no good ones
	TTFT         Quantiles `json:"ttft_s"`
	TPOT         Quantiles `json:"tpot_s"`
	LastStage    Quantiles `json:"last_stage_ttft_s"`
	Goodput      float64   `json:"goodput"`        // share of requests with TTFT <= 2 s and TPOT <= 50 ms
	GoodputPerS  float64   `json:"goodput_per_s"`  // those requests per second
	Hit          float64   `json:"hit"`            // cached / prompt tokens
	Eta          float64   `json:"eta"`            // Hit against pooled LRU of the same total capacity
	CV           float64   `json:"cv"`             // time mean of the coefficient of variation of in-flight requests
	Phantom      float64   `json:"phantom_tokens"` // mean predicted minus actual hit
	Preempted    int       `json:"preempted"`
	SpanS        float64   `json:"span_s"`       // virtual time to the last token
	DrainS       float64   `json:"drain_s"`      // virtual time between the last arrival and the last token
	TokensPerS   float64   `json:"tokens_per_s"` // answered tokens
	PrefillError float64   `json:"prefill_mape"` // of the learnt models, mean over workers
	DecodeError  float64   `json:"decode_mape"`
	RegretMean   float64   `json:"regret_mean"` // TTFT mean against the best policy of the table
	RegretP90    float64   `json:"regret_p90"`
}

// GoodTTFTS and GoodTPOTS bound a good request.
const (
	GoodTTFTS = 2.0
	GoodTPOTS = 0.050
)

func (r *run) result() *Result {
	res := &Result{Policy: r.cfg.Policy, CV: r.balance.mean()}
	var ttft, tpot, final []float64
	var prompt, hit, good, phantom, out int
	var last time.Duration
	for i := range r.results {
		o := &r.results[i]
		last = max(last, o.arrived)
		if o.warmup {
			continue
		}
		res.Requests++
		if o.failed {
			res.Failed++
			continue
		}
		t := (o.first - o.arrived).Seconds()
		ttft = append(ttft, t)
		if o.stage == r.stageIndex {
			final = append(final, t)
		}
		p := 0.0
		if o.output > 1 {
			p = (o.ended - o.first).Seconds() / float64(o.output-1)
			tpot = append(tpot, p)
		}
		if t <= GoodTTFTS && p <= GoodTPOTS {
			good++
		}
		prompt, hit, out = prompt+o.prompt, hit+o.hit, out+o.output
		phantom += o.predicted - o.hit
	}
	for _, w := range r.workers {
		res.Preempted += w.preempted
	}
	n := float64(max(1, res.Requests))
	res.TTFT, res.TPOT, res.LastStage = quantiles(ttft), quantiles(tpot), quantiles(final)
	res.SpanS, res.DrainS = r.now.Seconds(), (r.now - last).Seconds()
	for i := range r.router.targets {
		q := r.router.targets[i].ledger.Model().Quality()
		res.PrefillError += q.PrefillMAPE / float64(len(r.workers))
		res.DecodeError += q.DecodeMAPE / float64(len(r.workers))
	}
	res.Goodput, res.GoodputPerS = float64(good)/n, float64(good)/max(res.SpanS, leastSpanS)
	res.Hit, res.Phantom = float64(hit)/float64(max(1, prompt)), float64(phantom)/n
	res.TokensPerS = float64(out) / max(res.SpanS, leastSpanS)
	return res
}

// leastSpanS keeps the rates of a run in which nothing was served finite: 0.
const leastSpanS = 1e-9

func quantiles(x []float64) Quantiles {
	if len(x) == 0 {
		return Quantiles{}
	}
	slices.Sort(x)
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	at := func(p float64) float64 { return x[min(len(x)-1, int(p*float64(len(x))))] }
	return Quantiles{Mean: sum / float64(len(x)), P50: at(0.5), P90: at(0.9), P99: at(0.99)}
}

// balance integrates the coefficient of variation of the workers' in-flight requests over the time in which there are
// any.
type balance struct {
	weighted, total float64
}

func (b *balance) hold(r *run, d time.Duration) {
	if d <= 0 || r.live == 0 {
		return
	}
	sum, squares := 0.0, 0.0
	for _, w := range r.workers {
		x := float64(len(w.running) + w.waiting.len())
		sum += x
		squares += float64(x * x)
	}
	n := float64(len(r.workers))
	m := sum / n
	variance := max(0, squares/n-float64(m*m))
	b.weighted += float64(d.Seconds() * math.Sqrt(variance) / m)
	b.total += d.Seconds()
}

func (b *balance) mean() float64 {
	if b.total == 0 {
		return 0
	}
	return b.weighted / b.total
}

// average is the mean of each figure over runs of one policy; counts are of the first run, preemptions summed.
func average(rs []*Result) *Result {
	out := *rs[0]
	n := float64(len(rs))
	over := func(at func(*Result) *float64) {
		sum := 0.0
		for _, r := range rs {
			sum += *at(r)
		}
		*at(&out) = sum / n
	}
	quantile := func(at func(*Result) *Quantiles) {
		over(func(r *Result) *float64 { return &at(r).Mean })
		over(func(r *Result) *float64 { return &at(r).P50 })
		over(func(r *Result) *float64 { return &at(r).P90 })
		over(func(r *Result) *float64 { return &at(r).P99 })
	}
	quantile(func(r *Result) *Quantiles { return &r.TTFT })
	quantile(func(r *Result) *Quantiles { return &r.TPOT })
	quantile(func(r *Result) *Quantiles { return &r.LastStage })
	for _, at := range []func(*Result) *float64{
		func(r *Result) *float64 { return &r.Goodput }, func(r *Result) *float64 { return &r.GoodputPerS },
		func(r *Result) *float64 { return &r.Hit }, func(r *Result) *float64 { return &r.CV },
		func(r *Result) *float64 { return &r.Phantom }, func(r *Result) *float64 { return &r.SpanS },
		func(r *Result) *float64 { return &r.DrainS }, func(r *Result) *float64 { return &r.TokensPerS },
		func(r *Result) *float64 { return &r.PrefillError }, func(r *Result) *float64 { return &r.DecodeError },
	} {
		over(at)
	}
	for _, r := range rs[1:] {
		out.Preempted += r.Preempted
		out.Failed += r.Failed
	}
	return &out
}
