// Package policy ranks the targets of one request. A policy is a pure function of the request and of one view per
// target: it holds no state, reads no clock and draws its randomness from the request's seed, so the live scheduler and
// the simulator run the same code and a receipt can replay a decision.
//
// Every policy computes a cost per eligible target, lower is better, as a sum of named terms. Equal costs are ordered
// by a hash of the request's seed and the target's identity, so the order of the views never matters.
package policy

import "github.com/kvmesh/kvmesh/scheduler-svc/internal/learn"

// MaxTerms bounds the named terms of a cost, so that a ranking needs no allocation per target.
const MaxTerms = 8

// Request is what a policy knows of a request. It holds no text and no token.
type Request struct {
	PromptTokens         int    // L, at least 1
	OutputTokensExpected int    // the workload's mean or the client's limit, never the true length; 0 is unknown
	Key                  uint64 // hash of the prompt's first units, for consistent hashing
	Seed                 uint64 // randomness of this decision; equal seeds and views give equal rankings
	Priority             int    // 0 is normal; each step up doubles the weight of the request's own delay, down halves it
	NeedsLoRA            bool   // the request names an adapter, so View.LoRALoaded counts
}

// Certainty says how far a target's predicted hit can be trusted.
type Certainty uint8

// Exact: events are live and complete. Degraded: a gap is under repair, events lag or tokens are estimated, so hits are
// discounted. Fallback: there are no events, so only the router's own speculative hits count, at a lower rate.
const (
	Exact Certainty = iota
	Degraded
	Fallback
)

// String returns the spelling used by receipts and metrics.
func (c Certainty) String() string {
	switch c {
	case Exact:
		return "EXACT"
	case Degraded:
		return "DEGRADED"
	case Fallback:
		return "FALLBACK"
	}
	return "UNKNOWN"
}

// Bar is the reason why a target cannot take the request. A barred target is never ranked.
type Bar uint8

// The reasons, in the order a receipt prefers when several hold.
const (
	NotBarred   Bar = iota
	BarModel        // serves another model
	BarLoRA         // cannot load the adapter
	BarHealth       // lease lost, breaker open or failing probes
	BarDraining     // takes no new work
	BarExcluded     // an earlier attempt of this request failed there, or the client excluded it
	BarCapacity     // the prompt cannot fit its cache, or its limit of requests is reached
)

// String returns the spelling used by receipts and metrics.
func (b Bar) String() string {
	names := [...]string{"", "model", "lora", "health", "draining", "excluded", "capacity"}
	if int(b) < len(names) {
		return names[b]
	}
	return "unknown"
}

// View is everything a router can know now of one target, a (worker, rank). Loads are the router's own reservations
// plus those other schedulers shared; only KVUse, Waiting and Running come from the worker's reports. The load package
// fills q, n, k and AdmitS from a ledger.
type View struct {
	Target int    // dense index of the caller's choosing; returned in the ranking
	ID     uint64 // stable identity, a hash of worker name and rank: order on the hash ring and among ties
	Bar    Bar

	Certainty Certainty
	HitTokens int // m: prompt tokens held, whole blocks, last-token rule applied, not discounted
	SlowerHit int // the part of HitTokens that only a slower tier than the device holds

	PrefillQueuedTokens int     // q: in-flight uncached prompt tokens not yet prefilled, own progress subtracted
	PrefillBookedTokens int     // the same without progress, released at the first token, as published policies count it
	Inflight            int     // n: requests dispatched and not ended
	KVTokens            int     // k: in-flight tokens, prompt and expected output
	AdmitS              float64 // predicted seconds until the request's blocks fit; 0 when they fit now or unknown

	CachedTokens     int     // tokens its cache holds, in use or not, by the index
	KVCapacityTokens int     // size of the cache, 0 is unknown
	KVUse            float64 // worker's report, 0 to 1
	Waiting, Running int     // worker's report

	LastDispatch uint64 // sequence number of the last dispatch to this target, 0 is never
	LoRALoaded   bool
	SessionHome  bool // the client asked for stickiness and its session lives here

	Coefficients learn.Coefficients
}

// Scored is one ranked target.
type Scored struct {
	Target int
	Cost   float64
	Terms  [MaxTerms]float64 // sums to Cost, named by Ranking.Terms; a policy without a sum has the one term
	tie    uint64
}

// Ranking is the result of one decision. Reuse it: Rank overwrites it and allocates only when the pool grows.
type Ranking struct {
	Scored  []Scored // best first; empty when every target is barred
	Terms   []string // names of the terms in use; owned by the policy, not to be written
	Session bool     // the session's home was put first

	units   string // of some terms, see unitsOf
	keys    []key  // scratch of the sort
	spare   []Scored
	scratch decision // of the decision under way; here so that none escapes to the heap
}

// Policy ranks targets. Implementations are immutable and safe for concurrent use.
type Policy interface {
	// Name is the registry's name.
	Name() string
	// Rank fills out with the targets that are not barred, best first. Views may be in any order; they are not kept.
	Rank(req *Request, views []View, out *Ranking)
}

// Best returns the chosen target, or false when every target is barred.
func (r *Ranking) Best() (Scored, bool) {
	if len(r.Scored) == 0 {
		return Scored{}, false
	}
	return r.Scored[0], true
}

// Deciding names the term that favoured the winner most over the runner-up, and by how much. It returns "only" when
// there was no runner-up, "session" when the session's home was put first and "tie" when the costs were equal.
func (r *Ranking) Deciding() (string, float64) {
	switch {
	case len(r.Scored) < 2:
		return "only", 0
	case r.Session:
		return "session", 0
	case r.Scored[0].Cost == r.Scored[1].Cost:
		return "tie", 0
	}
	name, gain := "tie", 0.0
	for i, term := range r.Terms {
		if d := r.Scored[1].Terms[i] - r.Scored[0].Terms[i]; d > gain {
			name, gain = term, d
		}
	}
	return name, gain
}
