// Package simulate replays request traces through the live policies against a model of vLLM's engine, in virtual time.
//
// Nothing reads a clock or a map's order and every random number comes from a seed, so equal inputs give equal results
// on every machine. A policy sees only what a router can know when it decides: its own dispatches, first tokens at the
// end of their step, cache events and polled reports, never the length of an answer.
package simulate

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Arrival is one request of a workload.
type Arrival struct {
	At     time.Duration // from the start of its stage
	Prompt int           // tokens
	Output int           // tokens, at least 1
	Units  []uint32      // full units of the prompt, dense ids; an id stands for its unit and all before it
	Warmup bool          // runs but is not counted
}

// Stage is a run of arrivals. The next stage starts Pause after the last request of this one has ended.
type Stage struct {
	Arrivals []Arrival // by At; equal times keep this order
	Pause    time.Duration
}

// Workload is what a simulation replays.
type Workload struct {
	Name       string
	UnitTokens int
	Distinct   int // unit ids are below this
	Stages     []Stage
}

// Requests counts all arrivals.
func (w *Workload) Requests() int {
	n := 0
	for i := range w.Stages {
		n += len(w.Stages[i].Arrivals)
	}
	return n
}

// Span is the longest time from a stage's beginning to its last arrival.
func (w *Workload) Span() time.Duration {
	var last time.Duration
	for i := range w.Stages {
		for _, a := range w.Stages[i].Arrivals {
			last = max(last, a.At)
		}
	}
	return last
}

// Speedup divides the arrival times, which also shortens the gaps after which prefixes return. Lengths do not change.
func (w *Workload) Speedup(factor float64) *Workload {
	return w.mapTimes(func(at time.Duration) time.Duration { return time.Duration(float64(at) / factor) })
}

// Spread adds a uniform delay below width to every arrival, seeded, which undoes coarse timestamps.
func (w *Workload) Spread(width time.Duration, seed uint64) *Workload {
	if width <= 0 {
		return w
	}
	rng := rand.New(rand.NewPCG(seed, 0x5eed_5b4e))
	return w.mapTimes(func(at time.Duration) time.Duration { return at + time.Duration(rng.Int64N(int64(width))) })
}

func (w *Workload) mapTimes(at func(time.Duration) time.Duration) *Workload {
	out := *w
	out.Stages = make([]Stage, len(w.Stages))
	for i, s := range w.Stages {
		arrivals := slices.Clone(s.Arrivals)
		for j := range arrivals {
			arrivals[j].At = at(arrivals[j].At)
		}
		slices.SortStableFunc(arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
		out.Stages[i] = Stage{Arrivals: arrivals, Pause: s.Pause}
	}
	return &out
}
