// Package breaker keeps requests from a target that fails.
//
// Only failures of the target count: refused or reset connections, 5xx, cut streams. A worker at capacity (429) or one that
// refuses a malformed request (4xx) is alive, and a client that leaves says nothing.
package breaker

import (
	"sync"
	"time"
)

// Verdict is what a request's end says about its target.
type Verdict uint8

// The verdicts.
const (
	Alive  Verdict = iota // it answered, even if only to refuse
	Failed                // it did not
	Silent                // nothing can be concluded
)

// Config bounds patience.
type Config struct {
	Failures int           // consecutive failures that open the breaker
	OpenMin  time.Duration // first time without requests; doubles with every failed probe
	OpenMax  time.Duration
}

// State is where a breaker stands.
type State uint8

// The states, as ListWorkers and metrics spell them.
const (
	Closed   State = iota
	Open           // takes nothing
	HalfOpen       // takes one request at a time to find out
)

// String returns the spelling.
func (s State) String() string { return [...]string{"closed", "open", "half-open"}[s] }

// Breaker is one target's. It is safe for concurrent use.
type Breaker struct {
	cfg Config

	mu       sync.Mutex
	failures int
	open     time.Duration // length of the present opening, 0 while closed
	until    time.Time
	probe    uint64 // request that finds out, 0 for none
	opened   uint64
}

// New returns a closed breaker.
func New(cfg Config) *Breaker { return &Breaker{cfg: cfg} }

// State returns where the breaker stands at now.
func (b *Breaker) State(now time.Time) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state(now)
}

func (b *Breaker) state(now time.Time) State {
	switch {
	case b.open == 0:
		return Closed
	case now.Before(b.until):
		return Open
	}
	return HalfOpen
}

// Allows reports whether a request may be sent at now.
func (b *Breaker) Allows(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state(now)
	return s == Closed || s == HalfOpen && b.probe == 0
}

// Sent tells of a request, whose number is not 0. In the half-open state it becomes the probe.
func (b *Breaker) Sent(now time.Time, request uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state(now) == HalfOpen && b.probe == 0 {
		b.probe = request
	}
}

// Done tells how a request ended. While the breaker is open, only its probe counts: the others were sent before.
func (b *Breaker) Done(now time.Time, request uint64, v Verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	probe := b.probe != 0 && b.probe == request
	if probe {
		b.probe = 0
	}
	switch {
	case v == Alive && (probe || b.open == 0):
		b.failures, b.open = 0, 0
	case v == Failed && b.open == 0:
		if b.failures++; b.failures >= b.cfg.Failures {
			b.trip(now, b.cfg.OpenMin)
		}
	case v == Failed && probe:
		b.trip(now, min(2*b.open, b.cfg.OpenMax))
	}
}

// Returned tells that the worker has come back by its own account: an open breaker lets a probe out at once, instead of
// serving the rest of a wait that was meant for the dead one.
func (b *Breaker) Returned(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state(now) == Open {
		b.open, b.until = b.cfg.OpenMin, now
	}
}

func (b *Breaker) trip(now time.Time, open time.Duration) {
	b.open, b.until, b.opened = open, now.Add(open), b.opened+1
}

// Opened is how often the breaker has opened.
func (b *Breaker) Opened() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened
}
