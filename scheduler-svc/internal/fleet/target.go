package fleet

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/breaker"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/expect"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/feed"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/learn"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/ledger"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy/load"
)

// Target is one rank of one worker: what a request is sent to. It is safe for concurrent use.
type Target struct {
	Key      feed.Key
	ID       uint64       // stable over schedulers and restarts
	Stream   *feed.Stream // nil when the index has no room for the stream
	Expect   expect.Set
	Breaker  *breaker.Breaker
	Drift    Drift
	Withheld Withheld

	fleet *Fleet
	card  atomic.Pointer[workerv1.WorkerCard]

	mu           sync.Mutex // guards what follows
	book         *load.Ledger
	lastDispatch uint64
	busyUntil    time.Time
	idleSince    time.Time // of the reports without load; zero while the last one had some
	idleUntil    time.Time
}

func newTarget(f *Fleet, key feed.Key, card *workerv1.WorkerCard) *Target {
	t := &Target{
		Key: key, ID: xxh3.HashStringSeed(key.Worker, uint64(key.Rank)), fleet: f,
		Breaker: breaker.New(f.cfg.Breaker), book: load.New(learn.Prior()),
	}
	t.card.Store(card)
	return t
}

// Card is the worker's latest card. It must not be changed.
func (t *Target) Card() *workerv1.WorkerCard { return t.card.Load() }

// Load returns the worker's report on this rank, nil when there is none.
func (t *Target) Load() *workerv1.RankLoad {
	loads := t.Card().GetLoads()
	if int(t.Key.Rank) >= len(loads) {
		return nil
	}
	return loads[t.Key.Rank]
}

// Fill sets the load, the capacity and the worker's report in a view. Its hit must be set before.
func (t *Target) Fill(now time.Time, promptTokens int, v *policy.View) {
	card := t.Card()
	v.KVCapacityTokens = int(card.GetGpuBlocks()) * int(card.GetBlockTokens())
	if t.Stream != nil {
		v.CachedTokens = t.Stream.Units() * unitTokens
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.book.Fill(t.fleet.offset(now), promptTokens, v)
	v.LastDispatch = t.lastDispatch
}

const unitTokens = 16

// Full reports whether the target has as many requests as it may have, or has refused one a moment ago.
func (t *Target) Full(now time.Time) bool {
	limit := t.fleet.cfg.MaxInflight
	if limit == 0 {
		limit = defaultInflight(t.Card())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.book.Inflight() >= limit || now.Before(t.busyUntil)
}

// defaultInflight lets a worker have half as many requests waiting as it runs at once, so that its batch never runs dry,
// and keeps the others here, where they can still go elsewhere.
func defaultInflight(card *workerv1.WorkerCard) int {
	if n := int(card.GetMaxSequences()); n > 0 {
		return n + max(1, n/2)
	}
	return unknownSequences
}

// unknownSequences is vLLM's default of 256 sequences and half as many waiting.
const unknownSequences = 384

// Busy keeps requests away for a moment after the worker said that it is at capacity.
func (t *Target) Busy(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busyUntil = now.Add(t.fleet.cfg.BusyHold)
}

// Reserve books a request.
func (t *Target) Reserve(now time.Time, owner uint64, b ledger.Booking) load.Ticket {
	t.Expect.Insert(expect.Expectation{
		Owner: owner, Units: b.Units, Expires: now.Add(t.fleet.cfg.ExpectTTL), Keep: b.Keep || !t.HasEvents(),
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastDispatch = t.fleet.dispatches.Add(1)
	return t.book.Dispatch(t.fleet.offset(now), load.Entry{
		PromptTokens: b.PromptTokens, UncachedTokens: b.UncachedTokens, OutputTokens: b.OutputTokens, AdmitS: b.AdmitS,
	})
}

// First books the first token.
func (t *Target) First(now time.Time, ticket load.Ticket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.book.First(t.fleet.offset(now), ticket)
}

// eventLag is how long after an answer its events are still awaited. vLLM 0.32 publishes them within 52 ms of the first
// byte on busy cores, adapter and bus add some 10 ms. Longer waits turn what was evicted meanwhile into phantom hits.
const eventLag = 100 * time.Millisecond

// End ends a booking.
func (t *Target) End(now time.Time, owner uint64, ticket load.Ticket, s load.Settle) {
	t.Expect.Release(owner, s.Complete, now.Add(eventLag))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.book.End(t.fleet.offset(now), ticket, s)
}

// report hands the card's load to the book, backdated by its age.
func (t *Target) report(now time.Time) {
	l := t.Load()
	if l == nil {
		return
	}
	at := now.Add(-time.Duration(l.GetAgeMs()) * time.Millisecond)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.book.Report(t.fleet.offset(at), l.GetKvUse(), int(l.GetWaiting()), int(l.GetRunning()))
	switch {
	case l.GetWaiting()+l.GetRunning() > 0:
		t.idleSince, t.idleUntil = time.Time{}, time.Time{}
	case t.idleSince.IsZero():
		t.idleSince, t.idleUntil = at, at
	case at.After(t.idleUntil):
		t.idleUntil = at
	}
}

// Idle is the time over which the worker's latest reports said that nothing runs or waits there; zero while something
// does.
func (t *Target) Idle() (since, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.idleSince, t.idleUntil
}

// Inflight returns the requests in flight and their uncached tokens not yet prefilled.
func (t *Target) Inflight(now time.Time) (requests, queuedTokens int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.book.Inflight(), t.book.Queued(t.fleet.offset(now))
}

// Quality is how well the learnt model predicts the target.
func (t *Target) Quality() (learn.Coefficients, learn.Quality) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.book.Model()
	return m.Coefficients(), m.Quality()
}
