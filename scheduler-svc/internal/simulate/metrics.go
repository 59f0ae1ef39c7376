package simulate

import (
	"math"
	"slices"
	"time"
)

// Quantiles summarises one distribution. Percentiles take the sorted value at index floor(p*n); failures count as
// infinite.
type Quantiles struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
}

// Result is what one simulation measured. Times are seconds.
type Result struct {
	Policy      string    `json:"policy"`
	Requests    int       `json:"requests"` // counted ones
	Failed      int       `json:"failed"`
	TTFT        Quantiles `json:"ttft_s"`
	TPOT        Quantiles `json:"tpot_s"`
	Goodput     float64   `json:"goodput"`        // share of requests with TTFT <= 2 s and TPOT <= 50 ms
	GoodputPerS float64   `json:"goodput_per_s"`  // those requests per second
	Hit         float64   `json:"hit"`            // cached / prompt tokens
	Eta         float64   `json:"eta"`            // Hit against pooled LRU of the same total capacity
	CV          float64   `json:"cv"`             // time mean of the coefficient of variation of in-flight work
	Phantom     float64   `json:"phantom_tokens"` // mean predicted minus actual hit
	Preempted   int       `json:"preempted"`
	SpanS       float64   `json:"span_s"`       // virtual time to the last token
	LastIdleS   float64   `json:"drain_s"`      // virtual time between the last arrival and the last token
	TokensPerS  float64   `json:"tokens_per_s"` // answered tokens
}

// GoodTTFTS and GoodTPOTS bound a good request.
const (
	GoodTTFTS = 2.0
	GoodTPOTS = 0.050
)

func (r *run) result() *Result {
	res := &Result{Policy: r.cfg.Policy, CV: r.balance.mean()}
	var ttft, tpot []float64
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
			ttft = append(ttft, math.Inf(1))
			continue
		}
		t := (o.first - o.arrived).Seconds()
		ttft = append(ttft, t)
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
	res.TTFT, res.TPOT = quantiles(ttft), quantiles(tpot)
	res.SpanS, res.LastIdleS = r.now.Seconds(), (r.now - last).Seconds()
	res.Goodput, res.GoodputPerS = float64(good)/n, float64(good)/res.SpanS
	res.Hit, res.Phantom = float64(hit)/float64(max(1, prompt)), float64(phantom)/n
	res.TokensPerS = float64(out) / res.SpanS
	return res
}

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
