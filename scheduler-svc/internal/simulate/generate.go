package simulate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// arrivals draws exponential gaps of the rate until the duration is over, in whole microseconds so that the last bit of
// a logarithm cannot move an event.
func arrivals(rng *rand.Rand, perS, seconds float64) []time.Duration {
	var out []time.Duration
	for at := 0.0; ; {
		at += -math.Log(1-rng.Float64()) / perS
		if at >= seconds {
			return out
		}
		out = append(out, time.Duration(math.Round(at*1e6))*time.Microsecond)
	}
}

// rung is one step of a ladder of request rates.
type rung struct{ perS, seconds float64 }

// ladder is llm-d's benchmark to break a pool: the first rung warms the caches and is not counted.
func ladder() []rung {
	return []rung{
		{15, 50},
		{3, 20},
		{10, 20},
		{15, 20},
		{20, 38},
		{22, 34},
		{25, 30},
		{30, 25},
		{35, 21},
		{40, 38},
		{43, 36},
		{46, 33},
		{49, 30},
		{52, 29},
		{55, 27},
		{57, 26},
		{60, 25},
	}
}

// B2B generates the ladder: 150 groups of 5 prompts, 6,000 tokens shared by a group and 1,200 of the prompt's own,
// answers of 1,000 tokens, drained and rested for 1 s between rungs.
func B2B(seed uint64) *Workload {
	const groups, prompts, shared, own, unit = 150, 5, 6000, 1200, 64
	rng := rand.New(rand.NewPCG(seed, 0xb2b))
	all := number(family{groups: groups, prompts: prompts, shared: shared, own: own, unit: unit})
	w := &Workload{Name: "b2b", UnitTokens: unit, Distinct: all.distinct}
	for i, r := range ladder() {
		s := Stage{Pause: time.Second}
		for _, at := range arrivals(rng, r.perS, r.seconds) {
			u := all.units[rng.IntN(len(all.units))]
			s.Arrivals = append(s.Arrivals, Arrival{At: at, Prompt: shared + own, Output: 1000, Units: u, Warmup: i == 0})
		}
		w.Stages = append(w.Stages, s)
	}
	return w
}

// hotRequests is the length of the hot group's run in the cells: long enough for the start to be a small part, short
// enough for the answers not to fill the caches.
const hotRequests = 800

// HotGroup generates one group of distinct prompts: 2,548 shared and 7,252 own tokens, answers of 430, at 12 requests
// per second.
func HotGroup(seed uint64, requests int) *Workload {
	const shared, own, unit, perS = 2548, 7252, 64, 12
	rng := rand.New(rand.NewPCG(seed, 0x407))
	all := number(family{groups: 1, prompts: requests, shared: shared, own: own, unit: unit})
	at := arrivals(rng, perS, float64(requests)/perS)
	return oneStage("hot-group", all, at, Arrival{Prompt: shared + own, Output: 430})
}

func oneStage(name string, all familySet, at []time.Duration, like Arrival) *Workload {
	w := &Workload{Name: name, UnitTokens: all.unit, Distinct: all.distinct, Stages: make([]Stage, 1)}
	for i, t := range at[:min(len(at), len(all.units))] {
		a := like
		a.At, a.Units = t, all.units[i]
		w.Stages[0].Arrivals = append(w.Stages[0].Arrivals, a)
	}
	return w
}

// family describes prompts that share a prefix within their group.
type family struct{ groups, prompts, shared, own, unit int }

type familySet struct {
	units    [][]uint32 // by prompt, groups one after the other
	distinct int
	unit     int
}

// number numbers the full units of every prompt: the first floor(shared/unit) are the group's.
func number(f family) familySet {
	set := familySet{unit: f.unit}
	for range f.groups {
		base := uint32(set.distinct)
		common := f.shared / f.unit
		set.distinct += common
		for range f.prompts {
			var units []uint32
			for i := range common {
				units = append(units, base+uint32(i))
			}
			for range (f.shared+f.own)/f.unit - common {
				units = append(units, uint32(set.distinct))
				set.distinct++
			}
			set.units = append(set.units, units)
		}
	}
	return set
}

// NoPrefix takes a workload's times and lengths and lets no prompt share anything.
func NoPrefix(w *Workload) *Workload {
	out := *w
	out.Name, out.Distinct = w.Name+"-no-prefix", 0
	out.Stages = make([]Stage, len(w.Stages))
	for i, s := range w.Stages {
		list := slices.Clone(s.Arrivals)
		for j := range list {
			units := make([]uint32, len(list[j].Units))
			for k := range units {
				units[k] = uint32(out.Distinct)
				out.Distinct++
			}
			list[j].Units = units
		}
		slices.SortStableFunc(list, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
		out.Stages[i] = Stage{Arrivals: list, Pause: s.Pause}
	}
	return &out
}
