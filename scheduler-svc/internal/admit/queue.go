// Package admit holds requests back while every target that could take them is full.
//
// There is one line for the models that share workers (a base model, its adapters, its other names), bounded over all. A
// place goes to the most urgent request; among equals tenants take turns by what they were served (virtual token counters),
// within a quantum by the longest known prefix, and then by arrival. A newcomer does not overtake those who wait. Places are
// handed on when capacity may have appeared, which begins a round; the request then decides again and leaves the queue only
// when it was placed, so a wrong guess costs nobody a place. One that finds no room hands its turn on to those whom other
// targets may serve: in a round each model fails once.
package admit

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy/load"
)

// Config bounds the queues.
type Config struct {
	MaxWaiting int // over all models
	MaxTenants int // counters kept
	// QuantumTokens is by how much a tenant may be ahead of the least served one and still go first for its prefix.
	QuantumTokens int
}

// Queue is safe for concurrent use.
type Queue struct {
	cfg     Config
	start   time.Time
	tenants *Tenants

	mu      sync.Mutex
	lines   map[string]*line
	waiting int
	serial  uint64
	asked   uint64 // rounds of Refresh
}

// line is one queue. Lines without waiters stay only while their drain rate is known.
type line struct {
	waiters []*Waiter
	drained load.Rate
	round   uint64              // counts what may have made room, from firstRound
	full    map[string]struct{} // models for which a waiter found no room in this round
}

// firstRound is that of a line which nothing has happened to; 0 is no round.
const firstRound = 1

// Look is how a line stood for a newcomer.
type Look struct {
	// Behind reports that somebody waits who comes before it.
	Behind bool
	round  uint64
}

// Waiter is one request's place.
type Waiter struct {
	Line, Model string
	Tenant      string
	Priority    int32
	// Narrow tells that the request may not go to all of its model's targets: that it finds no room says nothing of others.
	// The waiter itself sets it, before Enter and Wait.
	Narrow bool
	// Look is what the request saw before it entered: unless it was behind others it has then decided in vain.
	Look Look
	// Peek says how many tokens of the prompt some worker holds now; nil when nobody knows. It must be safe to call from
	// another goroutine until Leave has returned, and after that.
	Peek func() int

	serial    uint64
	awake     bool
	given     uint64 // round of its latest turn
	tried     uint64 // round in which it found no room
	turn      chan struct{}
	hit       int
	asked     uint64
	overtaken int
}

// New returns empty queues.
func New(cfg Config, now time.Time) *Queue {
	return &Queue{cfg: cfg, start: now, tenants: NewTenants(cfg.MaxTenants), lines: map[string]*line{}}
}

// Tenants returns the counters.
func (q *Queue) Tenants() *Tenants { return q.tenants }

// Look tells a newcomer whether somebody waits in the line who comes before it. Those for whose model this round has no room
// do not: what it may take they could not.
func (q *Queue) Look(name, model string, priority int32) Look {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[name]
	if l == nil {
		return Look{round: firstRound}
	}
	look := Look{round: l.round}
	for _, w := range l.waiters {
		if w.Priority >= priority && (w.Model == model || !l.vain(w)) {
			look.Behind = true
			break
		}
	}
	return look
}

// vain reports whether another turn in this round would be for nothing.
func (l *line) vain(w *Waiter) bool {
	_, full := l.full[w.Model]
	return full || w.tried == l.round
}

// fail notes that a waiter found no room.
func (l *line) fail(w *Waiter) {
	w.tried = l.round
	if !w.Narrow {
		l.full[w.Model] = struct{}{}
	}
}

// renew begins a round: there may be room for anybody.
func (l *line) renew() {
	l.round++
	clear(l.full)
}

// Enter takes a place, or reports false when the queue is full.
func (q *Queue) Enter(w *Waiter) bool {
	if w.Peek != nil {
		w.hit = w.Peek()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting >= q.cfg.MaxWaiting {
		return false
	}
	q.waiting++
	q.serial++
	w.serial, w.turn, w.asked = q.serial, make(chan struct{}, 1), q.asked
	l := q.line(w.Line)
	l.waiters = append(l.waiters, w)
	switch {
	case !w.Look.Behind && w.Look.round == l.round:
		l.fail(w)
	case w.Look.round != l.round || !l.deciding():
		q.hand(l)
	}
	return true
}

// deciding reports whether a waiter has its turn; it hands it on.
func (l *line) deciding() bool {
	return slices.ContainsFunc(l.waiters, func(w *Waiter) bool { return w.awake })
}

func (q *Queue) line(name string) *line {
	l := q.lines[name]
	if l == nil {
		l = &line{round: firstRound, full: map[string]struct{}{}}
		q.lines[name] = l
	}
	return l
}

// Wait blocks until it may be w's turn or ctx ends. Waiting again says that the turn found no room; it is handed on.
func (q *Queue) Wait(ctx context.Context, w *Waiter) error {
	q.mu.Lock()
	w.awake = len(w.turn) > 0 // a turn that came while w decided is still its own, to use or to hand on
	// Where something has ended since the turn was given, whoever was told of that decides already.
	if l := q.lines[w.Line]; !w.awake && w.given == l.round {
		l.fail(w)
		q.hand(l)
	}
	q.mu.Unlock()
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leave gives the place up. A waiter that was placed hands its turn on: there may be room for more.
func (q *Queue) Leave(w *Waiter, placed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[w.Line]
	for i := range l.waiters {
		if l.waiters[i] == w {
			l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
			q.waiting--
			break
		}
	}
	if placed || w.awake {
		q.wake(l)
	}
}

// Freed tells that a request of the line's models has ended.
func (q *Queue) Freed(now time.Time, name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.line(name)
	l.drained.Add(now.Sub(q.start))
	l.renew()
	q.wake(l)
}

// Tick wakes the first of every line: capacity can also appear by a card, a breaker or time.
func (q *Queue) Tick() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lines {
		l.renew()
		q.wake(l)
	}
}

// wake hands a turn on. Where all have it, one has it again: it may have decided before the capacity appeared.
func (q *Queue) wake(l *line) {
	if q.hand(l) {
		return
	}
	if w := l.first(); w != nil {
		l.give(w)
	}
}

// hand gives the turn to the best waiter that does not have it and for which there may be room; it reports false when
// there is none.
func (q *Queue) hand(l *line) bool {
	w := q.next(l)
	if w != nil {
		l.give(w)
	}
	return w != nil
}

func (l *line) give(w *Waiter) {
	w.awake, w.given = true, l.round
	select {
	case w.turn <- struct{}{}:
	default:
	}
}

// first is the earliest of the most urgent waiters that decide; nil when none does.
func (l *line) first() *Waiter {
	var best *Waiter
	for _, w := range l.waiters {
		if w.awake && (best == nil || w.Priority > best.Priority) {
			best = w
		}
	}
	return best
}

// Waiting is the number of waiters over all models.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// RetryAfter predicts when a place is free, from the learnt rate at which the line's requests end: whole seconds, from 1
// to a minute.
func (q *Queue) RetryAfter(now time.Time, name string) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[name]
	if l == nil {
		return time.Second
	}
	rate := l.drained.PerS(now.Sub(q.start))
	if rate <= 0 {
		return defaultRetry
	}
	wait := time.Duration(float64(len(l.waiters)+1) / rate * float64(time.Second))
	return min(max(wait.Round(time.Second), time.Second), time.Minute)
}

// defaultRetry is the advice while nothing has ended yet.
const defaultRetry = 5 * time.Second

// Forget drops the lines that no model stands in and nobody waits in.
func (q *Queue) Forget(used func(name string) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, l := range q.lines {
		if len(l.waiters) == 0 && !used(name) {
			delete(q.lines, name)
		}
	}
}
