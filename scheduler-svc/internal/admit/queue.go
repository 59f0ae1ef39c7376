// Package admit holds requests back while every target that could take them is full.
//
// There is one queue per model, bounded over all. A place goes to the most urgent request; among equals tenants take turns
// by what they were served (virtual token counters), within a quantum by the longest known prefix, and then by arrival. A
// newcomer does not overtake those who wait. Places are handed on when capacity may have appeared; the request then decides
// again and leaves the queue only when it was placed, so a wrong guess costs nobody a place.
package admit

import (
	"context"
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
	models  map[string]*line
	waiting int
	serial  uint64
	asked   uint64 // rounds of Refresh
}

// line is one model's queue. Lines of models without waiters stay only while their drain rate is known.
type line struct {
	waiters []*Waiter
	drained load.Rate
}

// Waiter is one request's place.
type Waiter struct {
	Model    string
	Tenant   string
	Priority int32
	// Peek says how many tokens of the prompt some worker holds now; nil when nobody knows. It must be safe to call from
	// another goroutine until Leave has returned, and after that.
	Peek func() int

	serial    uint64
	awake     bool
	turn      chan struct{}
	hit       int
	asked     uint64
	overtaken int
}

// New returns empty queues.
func New(cfg Config, now time.Time) *Queue {
	return &Queue{cfg: cfg, start: now, tenants: NewTenants(cfg.MaxTenants), models: map[string]*line{}}
}

// Tenants returns the counters.
func (q *Queue) Tenants() *Tenants { return q.tenants }

// Behind reports whether somebody waits who comes before a newcomer of this priority.
func (q *Queue) Behind(model string, priority int32) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.models[model]
	if l == nil {
		return false
	}
	for _, w := range l.waiters {
		if w.Priority >= priority {
			return true
		}
	}
	return false
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
	l := q.line(w.Model)
	l.waiters = append(l.waiters, w)
	return true
}

func (q *Queue) line(model string) *line {
	l := q.models[model]
	if l == nil {
		l = &line{}
		q.models[model] = l
	}
	return l
}

// Wait blocks until it may be w's turn or ctx ends.
func (q *Queue) Wait(ctx context.Context, w *Waiter) error {
	q.mu.Lock()
	w.awake = len(w.turn) > 0 // a turn that came while w decided is still its own, to use or to hand on
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
	l := q.models[w.Model]
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

// Freed tells that a request of the model has ended.
func (q *Queue) Freed(now time.Time, model string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.line(model)
	l.drained.Add(now.Sub(q.start))
	q.wake(l)
}

// Tick wakes the first of every line: capacity can also appear by a card, a breaker or time.
func (q *Queue) Tick() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.models {
		q.wake(l)
	}
}

// wake gives the turn to the best waiter that does not have it. Where all have it, one has it again: it may have decided
// before the capacity appeared.
func (q *Queue) wake(l *line) {
	best := q.next(l)
	if best == nil {
		best = l.first()
	}
	if best == nil {
		return
	}
	best.awake = true
	select {
	case best.turn <- struct{}{}:
	default:
	}
}

// first is the earliest of the most urgent waiters; nil when nobody waits.
func (l *line) first() *Waiter {
	var best *Waiter
	for _, w := range l.waiters {
		if best == nil || w.Priority > best.Priority {
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

// RetryAfter predicts when a place is free, from the learnt rate at which the model's requests end: whole seconds, from 1
// to a minute.
func (q *Queue) RetryAfter(now time.Time, model string) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.models[model]
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

// Forget drops the lines of models that nobody serves and nobody waits for.
func (q *Queue) Forget(served func(model string) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for model, l := range q.models {
		if len(l.waiters) == 0 && !served(model) {
			delete(q.models, model)
		}
	}
}
