package policy

import "math"

// hits turns a predicted hit into the tokens a policy may count on.
type hits struct {
	believed   [3]float64 // by Certainty
	slowerTier float64
}

func newHits(o Options) hits {
	return hits{
		believed:   [3]float64{Exact: 1, Degraded: o.DegradedDiscount, Fallback: o.FallbackDiscount},
		slowerTier: o.SlowerTierCredit,
	}
}

// tokens returns the hit after certainty and tier, at most the prompt less its last token, which is always computed.
func (h hits) tokens(req *Request, v *View) float64 {
	m := float64(v.HitTokens)
	if v.SlowerHit > 0 {
		m -= float64((1 - h.slowerTier) * float64(min(v.SlowerHit, v.HitTokens)))
	}
	if int(v.Certainty) < len(h.believed) {
		m *= h.believed[v.Certainty]
	}
	return math.Max(0, math.Min(m, float64(req.PromptTokens-1)))
}

// uncached returns u, the prompt tokens to compute: at least 1.
func (h hits) uncached(req *Request, v *View) float64 {
	return math.Max(1, float64(req.PromptTokens)-h.tokens(req, v))
}

// ttft predicts the seconds to the first token: queued prefill and own prefill, slowed by the decodes that share each
// step (2 % per request in flight, the fit of the simulator), after the wait for blocks.
func (h hits) ttft(req *Request, v *View) float64 {
	work := (float64(v.PrefillQueuedTokens) + h.uncached(req, v)) * v.Coefficients.PrefillS
	return v.AdmitS + float64(work*besides(v)) + v.Coefficients.StepS
}

// besides is how much decodes stretch a target's prefill.
func besides(v *View) float64 { return 1 + float64(decodeShare*float64(v.Inflight)) }

// decodeShare is the slowdown of prefill per request in flight.
const decodeShare = 0.02

// Predictor predicts times from a view with the same hit rules as the policies.
type Predictor struct{ hits hits }

// NewPredictor returns a predictor for the options.
func NewPredictor(o Options) Predictor { return Predictor{newHits(o)} }

// TTFT predicts the seconds from dispatch to the first token on this target.
func (p Predictor) TTFT(req *Request, v *View) float64 { return p.hits.ttft(req, v) }

// Uncached returns the prompt tokens the target is expected to compute, what a reservation should add to its queue.
func (p Predictor) Uncached(req *Request, v *View) int {
	return int(math.Ceil(p.hits.uncached(req, v)))
}
