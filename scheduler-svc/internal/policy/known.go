package policy

import "math"

// blend is llm-d's precise scorer: the weighted sum of matched share, normalised waiting queue and free cache. Queue
// and cache use are the worker's reports, as published.
type blend struct {
	hits         hits
	match, queue float64
	freeKV       float64
}

func (blend) terms() []string { return []string{"match", "queue", "free_kv"} }

func (p blend) score(d *decision, out []Scored) {
	least, most := math.MaxInt, 0
	for i := range out {
		w := d.view(&out[i]).Waiting
		least, most = min(least, w), max(most, w)
	}
	for i := range out {
		v, s := d.view(&out[i]), &out[i]
		free := 1.0
		if most > least {
			free = float64(most-v.Waiting) / float64(most-least)
		}
		s.Terms[0] = -p.match * p.hits.tokens(d.req, v) / float64(d.req.PromptTokens)
		s.Terms[1] = -p.queue * free
		s.Terms[2] = -p.freeKV * (1 - v.KVUse)
		s.sum(3)
	}
}

// sticky stays with the warm targets until one is shorter by tau: candidates are the targets that match most of the
// prompt and any whose queue is at least tau below the least of those; all when none is warm. All is in tokens, as
// published, so tau has to fit the model and the GPU.
type sticky struct {
	hits       hits
	match, tau float64
}

func (sticky) terms() []string { return []string{"queue", "prefill", "cold"} }

func (p sticky) score(d *decision, out []Scored) {
	warmest := math.Inf(1)
	for i := range out {
		if v := d.view(&out[i]); p.warm(d.req, v) {
			warmest = math.Min(warmest, float64(v.PrefillBookedTokens))
		}
	}
	for i := range out {
		v, s := d.view(&out[i]), &out[i]
		queue := float64(v.PrefillBookedTokens)
		s.Terms[0], s.Terms[1] = queue, p.hits.uncached(d.req, v)
		if !math.IsInf(warmest, 1) && !p.warm(d.req, v) && queue > warmest-p.tau {
			s.Terms[2] = coldTokens
		}
		s.sum(3)
	}
}

// coldTokens puts every cold target behind every warm one: longer than any queue.
const coldTokens = 1e15

func (p sticky) warm(req *Request, v *View) bool {
	return p.hits.tokens(req, v) >= p.match*float64(req.PromptTokens)
}

// lmetric multiplies the tokens to prefill by the requests in flight; no parameters.
type lmetric struct{ hits hits }

func (lmetric) terms() []string { return []string{"tokens_x_requests"} }

func (p lmetric) score(d *decision, out []Scored) {
	for i := range out {
		v := d.view(&out[i])
		set(&out[i], (float64(v.PrefillBookedTokens)+p.hits.uncached(d.req, v))*float64(v.Inflight+1))
	}
}

// predictedTTFT takes the earliest first token, with the weight of four decode steps.
type predictedTTFT struct{ hits hits }

func (predictedTTFT) terms() []string { return []string{"queue", "prefill", "decode", "admission"} }

func (p predictedTTFT) score(d *decision, out []Scored) {
	for i := range out {
		v, s := d.view(&out[i]), &out[i]
		slow := v.Coefficients.PrefillS * besides(v)
		s.Terms[0] = float64(v.PrefillQueuedTokens) * slow
		s.Terms[1] = p.hits.uncached(d.req, v) * slow
		s.Terms[2] = 4 * v.Coefficients.DecodeStepS(v.Inflight+1, v.KVTokens+d.req.PromptTokens)
		s.Terms[3] = v.AdmitS
		s.sum(4)
	}
}

// sum adds the first n terms up.
func (s *Scored) sum(n int) {
	s.Cost = 0
	for _, t := range s.Terms[:n] {
		s.Cost += t
	}
}
