package simulate

// PooledLRU returns the share of prompt tokens that one LRU cache of the given capacity would hit over the workload in
// order of arrival: full units, at most what leaves one token to compute. Capacity 0 is infinite. A request's tails are
// older than its heads, as a worker releases them.
func PooledLRU(w *Workload, capacityTokens int) float64 {
	units := w.Distinct
	if capacityTokens > 0 {
		units = min(units, capacityTokens/w.UnitTokens)
	}
	p := newPool(max(units, 1), 1, w.Distinct)
	hit, prompt := 0, 0
	for i := range w.Stages {
		for j := range w.Stages[i].Arrivals {
			a := &w.Stages[i].Arrivals[j]
			n := p.touch(a.Units)
			if !a.Warmup {
				hit += min(n*w.UnitTokens, a.Prompt-1)
				prompt += a.Prompt
			}
		}
	}
	return float64(hit) / float64(max(1, prompt))
}

// touch makes the units the most recent, the first one newest, and returns how many leading ones were held.
func (p *pool) touch(units []uint32) int {
	n := 0
	for n < len(units) && p.has(units[n]) {
		n++
	}
	for i := len(units) - 1; i >= 0; i-- {
		u := units[i]
		if !p.has(u) {
			p.take(1)
			p.cache(u)
		} else {
			p.ref(u)
		}
		p.unref(u)
	}
	return n
}
