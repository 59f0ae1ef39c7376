package policy

import "math"

// roundRobin takes the target whose last dispatch is longest ago, which is a turn for each in a stable pool and needs
// no counter.
type roundRobin struct{}

func (roundRobin) terms() []string { return []string{"order"} }

func (roundRobin) score(d *decision, out []Scored) {
	for i := range out {
		set(&out[i], float64(d.view(&out[i]).LastDispatch))
	}
}

// random leaves everything to the seeded tie.
type random struct{}

func (random) terms() []string { return []string{"random"} }

func (random) score(*decision, []Scored) {}

// leastRequests takes the fewest requests in flight.
type leastRequests struct{}

func (leastRequests) terms() []string { return []string{"requests"} }

func (leastRequests) score(d *decision, out []Scored) {
	for i := range out {
		set(&out[i], float64(d.view(&out[i]).Inflight))
	}
}

// leastTokens takes the fewest tokens: those to prefill, and a twentieth of those that decodes read.
type leastTokens struct{}

func (leastTokens) terms() []string { return []string{"tokens"} }

func (leastTokens) score(d *decision, out []Scored) {
	for i := range out {
		set(&out[i], tokenLoad(d.view(&out[i])))
	}
}

func tokenLoad(v *View) float64 {
	return float64(v.PrefillBookedTokens) + float64(0.05*float64(v.KVTokens))
}

// powerOfTwo takes the lower load of two targets drawn by the seed; the others follow in order of the draw.
type powerOfTwo struct{}

func (powerOfTwo) terms() []string { return []string{"load"} }

func (powerOfTwo) score(d *decision, out []Scored) {
	a, b := -1, -1
	for i := range out {
		switch {
		case a < 0 || out[i].tie < out[a].tie:
			a, b = i, a
		case b < 0 || out[i].tie < out[b].tie:
			b = i
		}
	}
	for i := range out {
		if i != a && i != b {
			set(&out[i], math.MaxFloat64)
			continue
		}
		set(&out[i], tokenLoad(d.view(&out[i])))
	}
}

// consistentHash orders the targets by rendezvous hashing of the request's key and takes the first below the bounded
// load (n+1 <= ceil(factor*(N+1)/W)). Rendezvous gives the same spread and the same small movement as a ring of many
// points and needs no table.
type consistentHash struct{ factor float64 }

func (consistentHash) terms() []string { return []string{"hash"} }

func (c consistentHash) score(d *decision, out []Scored) {
	total := 0
	for i := range out {
		total += d.view(&out[i]).Inflight
	}
	bound := math.Ceil(c.factor * float64(total+1) / float64(len(out)))
	for i := range out {
		v := d.view(&out[i])
		place := float64(mix(d.req.Key^mix(v.ID))>>11) / (1 << 53)
		if float64(v.Inflight+1) > bound {
			place++
		}
		set(&out[i], place)
	}
}

// longestPrefix takes the longest hit, whatever the load.
type longestPrefix struct{ hits hits }

func (longestPrefix) terms() []string { return []string{"match"} }

func (p longestPrefix) score(d *decision, out []Scored) {
	for i := range out {
		set(&out[i], -p.hits.tokens(d.req, d.view(&out[i])))
	}
}

func set(s *Scored, cost float64) { s.Cost, s.Terms[0] = cost, cost }
