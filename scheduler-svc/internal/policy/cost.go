package policy

import "math"

// CostOptions are the parameters of the default policy. The defaults hold over all traces of the reference; they were
// not fitted to one.
type CostOptions struct {
	DelayPrice    float64 // share of the requests in flight on a target that a needless prefill there delays
	EvictionPrice float64 // prefill seconds charged per needless prefill second once the pool's caches are full
	FullFrom      float64 // share of the pool's cache at which eviction starts to cost; the whole price at FullAt
	FullAt        float64
	DecodeWeight  float64 // decode steps charged
	RoomS         float64 // seconds charged for a cache wholly in use
	AdmitWeight   float64 // weight of the predicted wait for blocks; above 1 because that prediction is a lower bound
	AdmitHalfS    float64 // shortest wait for blocks in the pool, in seconds, at which that weight is halved
	LoRALoadS     float64 // seconds to load an adapter that is not resident
}

// DefaultCostOptions returns the published parameters.
func DefaultCostOptions() CostOptions {
	return CostOptions{
		DelayPrice: 0.22, EvictionPrice: 1.25, FullFrom: 0.5, FullAt: 0.8,
		DecodeWeight: 9, RoomS: 0.3, AdmitWeight: 3, AdmitHalfS: 0.5, LoRALoadS: 0.5,
	}
}

// priced is the default policy: the predicted seconds to the first token, plus what the placement costs others.
//
//	queue      q prefill tokens ahead, at the learnt rate of steps that also decode
//	prefill    u, the request's own uncached tokens, at the same rate
//	delay      (u - least u) prefill seconds, once for each of DelayPrice*n requests in flight on the target
//	eviction   the same seconds times EvictionPrice, as far as the pool's caches are full
//	decode     DecodeWeight decode steps with this request in the batch
//	room       the share of the target's cache in use
//	admission  the predicted wait for blocks
//	lora       loading an adapter
//
// A token that another target holds need not be computed: computing it again delays the requests beside it and later
// evicts a token. By Little's law n grows with the load, so hits weigh little in an idle pool, where balance is worth
// more, and decide everything in overload, where only work that is avoided shortens the queues. Where no target holds
// more than another both terms are zero and the balance of work decides alone.
type priced struct {
	hits hits
	opt  CostOptions
}

func newPriced(o Options) priced { return priced{newHits(o), o.Cost} }

func (priced) terms() []string {
	return []string{"queue", "prefill", "delay", "eviction", "decode", "room", "admission", "lora"}
}

func (p priced) score(d *decision, out []Scored) {
	least, price := p.pool(d, out)
	admit := p.opt.AdmitWeight * p.avoidable(d, out)
	selfish := math.Ldexp(1, -min(3, max(-3, d.req.Priority)))
	for i := range out {
		v, s := d.view(&out[i]), &out[i]
		c := &v.Coefficients
		perToken := 0.0
		if rate := c.PrefillRate(v.Inflight, v.KVTokens); rate > 0 {
			perToken = 1 / rate
		}
		u := p.hits.uncached(d.req, v)
		needless := float64(selfish * (u - least) * c.PrefillS)
		s.Terms[0] = float64(v.PrefillQueuedTokens) * perToken
		s.Terms[1] = u * perToken
		s.Terms[2] = p.opt.DelayPrice * float64(v.Inflight) * needless
		s.Terms[3] = price * needless
		s.Terms[4] = p.opt.DecodeWeight * c.DecodeStepS(v.Inflight+1, v.KVTokens+d.req.PromptTokens)
		s.Terms[5] = p.opt.RoomS * v.KVUse
		s.Terms[6] = admit * v.AdmitS
		if d.req.NeedsLoRA && !v.LoRALoaded {
			s.Terms[7] = p.opt.LoRALoadS
		}
		s.sum(8)
	}
}

// pool returns the least uncached tokens over the targets and the price of eviction at the pool's fullness. Targets of
// unknown size do not count; a pool of unknown size counts as full.
func (p priced) pool(d *decision, out []Scored) (least, price float64) {
	least = math.MaxFloat64
	var held, room int
	for i := range out {
		v := d.view(&out[i])
		least = math.Min(least, p.hits.uncached(d.req, v))
		if v.KVCapacityTokens > 0 {
			held, room = held+v.CachedTokens, room+v.KVCapacityTokens
		}
	}
	if room == 0 || p.opt.FullAt <= p.opt.FullFrom {
		return least, p.opt.EvictionPrice
	}
	full := (float64(held)/float64(room) - p.opt.FullFrom) / (p.opt.FullAt - p.opt.FullFrom)
	return least, p.opt.EvictionPrice * math.Max(0, math.Min(1, full))
}

// avoidable is the share of the admission price that holds: all of it while a target has no wait for blocks, less the
// longer even the shortest wait is. Then the pool is short of memory as a whole: no placement avoids the wait, and only
// work that hits save shortens it.
func (p priced) avoidable(d *decision, out []Scored) float64 {
	least := math.MaxFloat64
	for i := range out {
		least = math.Min(least, d.view(&out[i]).AdmitS)
	}
	if p.opt.AdmitHalfS <= 0 {
		return 1
	}
	return p.opt.AdmitHalfS / (p.opt.AdmitHalfS + least)
}
