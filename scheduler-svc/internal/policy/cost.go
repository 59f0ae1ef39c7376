package policy

import "math"

// CostOptions are the parameters of the default policy.
type CostOptions struct {
	EvictionPrice float64 // lambda at rest: prefill seconds charged per prefill second of uncached tokens
	Pressure      float64 // growth of lambda per second of mean queued prefill
	MaxPrice      float64 // bound of lambda
	DecodeWeight  float64 // decode steps charged
	AdmitWeight   float64
	LoRALoadS     float64 // seconds to load an adapter that is not resident
}

// DefaultCostOptions returns the published parameters.
func DefaultCostOptions() CostOptions {
	return CostOptions{EvictionPrice: 3, Pressure: 2, MaxPrice: 30, DecodeWeight: 4, LoRALoadS: 0.5, AdmitWeight: 1}
}

// priced is the default policy: predicted seconds to the first token, plus what the placement costs others.
type priced struct {
	hits hits
	opt  CostOptions
}

func newPriced(o Options) priced { return priced{newHits(o), o.Cost} }

func (priced) terms() []string {
	return []string{"queue", "prefill", "eviction", "decode", "admission", "lora"}
}

func (p priced) score(d *decision, out []Scored) {
	queued := 0.0
	for i := range out {
		queued += float64(d.view(&out[i]).PrefillQueuedTokens) * d.view(&out[i]).Coefficients.PrefillS
	}
	lambda := math.Min(p.opt.MaxPrice, p.opt.EvictionPrice+p.opt.Pressure*queued/float64(len(out)))
	lambda *= math.Exp2(-float64(min(3, max(-3, d.req.Priority))))
	for i := range out {
		v, s := d.view(&out[i]), &out[i]
		slow := v.Coefficients.PrefillS * (1 + decodeShare*float64(v.Inflight))
		u := p.hits.uncached(d.req, v)
		s.Terms[0] = float64(v.PrefillQueuedTokens) * slow
		s.Terms[1] = u * slow
		s.Terms[2] = lambda * u * v.Coefficients.PrefillS
		s.Terms[3] = p.opt.DecodeWeight * v.Coefficients.DecodeStepS(v.Inflight+1, v.KVTokens+d.req.PromptTokens)
		s.Terms[4] = p.opt.AdmitWeight * v.AdmitS
		if d.req.NeedsLoRA && !v.LoRALoaded {
			s.Terms[5] = p.opt.LoRALoadS
		}
		s.sum(6)
	}
}
