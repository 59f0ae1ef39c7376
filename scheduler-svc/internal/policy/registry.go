package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Default is the name of the policy used when a configuration names none.
const Default = "cost"

// Options are the parameters of all policies; a policy reads its own. The defaults are the values the project publishes
// results for.
type Options struct {
	DegradedDiscount float64 // share of a hit that is believed when certainty is DEGRADED, 0 to 1
	FallbackDiscount float64 // the same when certainty is FALLBACK
	SlowerTierCredit float64 // share of a hit that counts when a slower tier holds it, 0 to 1
	SessionPatienceS float64 // a session stays home unless another target is predicted to be this much faster

	StickyMatch float64 // share of the prompt that makes a target warm
	StickyTau   float64 // a cold target joins when its queue is at least this many tokens shorter
	LoadFactor  float64 // bound of consistent-hash: a target takes up to this multiple of the mean in-flight count
	BlendHit    float64 // weights of blend: matched share, queue, free cache
	BlendQueue  float64
	BlendKV     float64

	Cost CostOptions
}

// DefaultOptions returns the published parameters.
func DefaultOptions() Options {
	return Options{
		DegradedDiscount: 0.5, FallbackDiscount: 0.7, SlowerTierCredit: 0.8, SessionPatienceS: 5,
		StickyMatch: 0.8, StickyTau: 286_720, LoadFactor: 1.25,
		BlendHit: 3, BlendQueue: 2, BlendKV: 2,
		Cost: DefaultCostOptions(),
	}
}

type constructor struct {
	name string
	make func(Options) scorer
}

// table lists the policies in the order in which they are documented.
func table() []constructor {
	return []constructor{
		{"round-robin", func(Options) scorer { return roundRobin{} }},
		{"random", func(Options) scorer { return random{} }},
		{"least-requests", func(Options) scorer { return leastRequests{} }},
		{"least-tokens", func(Options) scorer { return leastTokens{} }},
		{"power-of-two", func(Options) scorer { return powerOfTwo{} }},
		{"consistent-hash", func(o Options) scorer { return consistentHash{o.LoadFactor} }},
		{"longest-prefix", func(o Options) scorer { return longestPrefix{newHits(o)} }},
		{"blend", func(o Options) scorer { return blend{newHits(o), o.BlendHit, o.BlendQueue, o.BlendKV} }},
		{"sticky", func(o Options) scorer { return sticky{newHits(o), o.StickyMatch, o.StickyTau} }},
		{"lmetric", func(o Options) scorer { return lmetric{newHits(o)} }},
		{"predicted-ttft", func(o Options) scorer { return predictedTTFT{newHits(o)} }},
		{"cost", func(o Options) scorer { return newPriced(o) }},
	}
}

// Names lists the registered policies.
func Names() []string {
	rows := table()
	names := make([]string, len(rows))
	for i, row := range rows {
		names[i] = row.name
	}
	return names
}

// New returns the named policy. The error names the policies there are.
func New(name string, opts Options) (Policy, error) {
	rows := table()
	i := slices.IndexFunc(rows, func(c constructor) bool { return c.name == name })
	if i < 0 {
		return nil, fmt.Errorf("policy %q is unknown, want one of %s", name, strings.Join(Names(), ", "))
	}
	s := rows[i].make(opts)
	return &ranked{
		name: name, scorer: s, terms: s.terms(), units: unitsOf(name), patience: opts.SessionPatienceS, hits: newHits(opts),
	}, nil
}
