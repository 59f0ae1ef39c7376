// Package fleet is the registry's cards as targets of requests: which workers there are, which models they serve, and what
// is known of each rank.
//
// A card is a lease, which the bus watches. A worker that is reported gone leaves the pools, and its streams the index. What
// is in flight there keeps its target until it ends.
package fleet

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/breaker"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/feed"
)

// Config of a fleet.
type Config struct {
	Breaker     breaker.Config
	LateAfter   time.Duration // events not heard of for this long make predictions DEGRADED
	MaxInflight int           // requests in flight per target; 0 is one and a half times its sequences
	BusyHold    time.Duration // no requests for this long after the worker said 429
	ExpectTTL   time.Duration // last resort for expected units
	MaxWorkers  int           // cards beyond it are ignored
}

// Streams is where a fleet's streams are followed.
type Streams interface {
	Open(now time.Time, key feed.Key, address string) *feed.Stream
	Close(key feed.Key)
}

// Fleet is safe for concurrent use.
type Fleet struct {
	cfg        Config
	streams    Streams
	start      time.Time // the books' clock begins here
	dispatches atomic.Uint64

	mu      sync.Mutex
	workers map[string]*worker
	past    map[string]struct{} // models that were served and are not now
	view    atomic.Pointer[View]
}

type worker struct {
	card  *workerv1.WorkerCard
	ranks []*Target
}

// View is an immutable picture of the fleet's members. Cards and loads inside targets move on.
type View struct {
	Targets []*Target // in (worker, rank) order
	Pools   map[string]*Pool
	byKey   map[feed.Key]*Target
	past    map[string]struct{}
}

// Pool is the targets that serve one model or adapter.
type Pool struct {
	Model  string
	Parent string // base model, for an adapter
	// Line names the queue of all models that share workers with this one, directly or by way of others.
	Line    string
	Targets []*Target
}

// Target returns the target of a key, nil when it is not in the fleet.
func (v *View) Target(worker string, rank uint32) *Target {
	return v.byKey[feed.Key{Worker: worker, Rank: rank}]
}

// New returns an empty fleet.
func New(cfg Config, streams Streams, now time.Time) *Fleet {
	f := &Fleet{
		cfg: cfg, streams: streams, start: now, workers: map[string]*worker{}, past: map[string]struct{}{},
	}
	f.view.Store(&View{Pools: map[string]*Pool{}, byKey: map[feed.Key]*Target{}})
	return f
}

func (f *Fleet) offset(now time.Time) time.Duration { return now.Sub(f.start) }

// View returns the present members.
func (f *Fleet) View() *View { return f.view.Load() }

// maxRanks bounds what a card can make the index open.
const maxRanks = 256

// Card takes a new or renewed card. It reports whether the worker is new; a fleet at MaxWorkers ignores new ones.
func (f *Fleet) Card(now time.Time, card *workerv1.WorkerCard) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.workers[card.GetWorkerId()]
	fresh := w == nil
	if fresh {
		if len(f.workers) >= f.cfg.MaxWorkers {
			return false
		}
		w = &worker{}
		f.workers[card.GetWorkerId()] = w
	}
	old := w.card
	w.card = card
	f.resize(now, w)
	returned := returned(old, card)
	for _, t := range w.ranks {
		t.card.Store(card)
		t.report(now)
		if returned {
			t.Breaker.Returned(now)
		}
	}
	if fresh || !sameMembership(old, card) {
		f.rebuild(unloaded(old, card)...)
		f.believe(w)
	}
	return fresh
}

// resize opens and closes ranks, and follows the adapter to a new address.
func (f *Fleet) resize(now time.Time, w *worker) {
	want := min(max(1, int(w.card.GetRanks())), maxRanks)
	for len(w.ranks) > want {
		last := w.ranks[len(w.ranks)-1]
		f.streams.Close(last.Key)
		w.ranks = w.ranks[:len(w.ranks)-1]
	}
	for rank := range want {
		key := feed.Key{Worker: w.card.GetWorkerId(), Rank: uint32(rank)}
		stream := f.streams.Open(now, key, w.card.GetAdapterAddress())
		if rank == len(w.ranks) {
			t := newTarget(f, key, w.card)
			t.Stream = stream
			w.ranks = append(w.ranks, t)
		}
	}
}

// returned reports whether a card says that its worker is ready again, after it was not or under a new adapter.
func returned(old, card *workerv1.WorkerCard) bool {
	const ready = workerv1.WorkerState_WORKER_STATE_READY
	return old != nil && card.GetState() == ready &&
		(old.GetState() != ready || old.GetAdapterEpoch() != card.GetAdapterEpoch())
}

func sameMembership(a, b *workerv1.WorkerCard) bool {
	return a.GetRanks() == b.GetRanks() && slices.EqualFunc(a.GetModels(), b.GetModels(),
		func(x, y *workerv1.ServedModel) bool { return x.GetId() == y.GetId() && x.GetParent() == y.GetParent() })
}

// unloaded names the adapters that a worker which stays ready lists no more: they were unloaded, and nothing is away.
func unloaded(old, card *workerv1.WorkerCard) (adapters []string) {
	const ready = workerv1.WorkerState_WORKER_STATE_READY
	if old.GetState() != ready || card.GetState() != ready {
		return nil
	}
	for _, m := range old.GetModels() {
		if m.GetParent() != "" && !slices.ContainsFunc(card.GetModels(), func(n *workerv1.ServedModel) bool { return n.GetId() == m.GetId() }) {
			adapters = append(adapters, m.GetId())
		}
	}
	return adapters
}

// Gone takes a worker out: its card was deleted.
func (f *Fleet) Gone(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.workers[id] == nil {
		return false
	}
	f.remove(id)
	f.rebuild()
	return true
}

func (f *Fleet) remove(id string) {
	for _, t := range f.workers[id].ranks {
		f.streams.Close(t.Key)
	}
	delete(f.workers, id)
}

// rebuild makes the view anew; models that are not there any more are remembered but for those to forget. The lock is held.
func (f *Fleet) rebuild(forget ...string) {
	v := &View{Pools: map[string]*Pool{}, byKey: map[feed.Key]*Target{}}
	for _, id := range slices.Sorted(maps.Keys(f.workers)) {
		w := f.workers[id]
		v.Targets = append(v.Targets, w.ranks...)
		for _, t := range w.ranks {
			v.byKey[t.Key] = t
		}
		for _, m := range w.card.GetModels() {
			p := v.Pools[m.GetId()]
			if p == nil {
				p = &Pool{Model: m.GetId(), Parent: m.GetParent()}
				v.Pools[m.GetId()] = p
			}
			if n := len(p.Targets); n > 0 && p.Targets[n-1].Key.Worker == id {
				continue // a card may name a model twice
			}
			p.Targets = append(p.Targets, w.ranks...)
		}
	}
	f.remember(v, forget)
	v.line(f.workers)
	f.view.Store(v)
}

// maxPast bounds the models remembered after their last worker left.
const maxPast = 1024

// remember keeps the models that the new view does not have any more: their workers are away, the models are known.
func (f *Fleet) remember(v *View, forget []string) {
	for model := range f.view.Load().Pools {
		if v.Pools[model] == nil && len(f.past) < maxPast && !slices.Contains(forget, model) {
			f.past[model] = struct{}{}
		}
	}
	for model := range v.Pools {
		delete(f.past, model)
	}
	v.past = maps.Clone(f.past)
}

// Past reports whether the model was served earlier by workers that have all left.
func (v *View) Past(model string) bool {
	_, ok := v.past[model]
	return ok
}

// Stalled lists the workers, in order, whose requests may never be answered: those that do not answer their adapters, and
// those asleep or paused with nothing running.
func (v *View) Stalled() []string { return v.workers(stalled) }

func stalled(c *workerv1.WorkerCard) bool {
	switch c.GetState() {
	case workerv1.WorkerState_WORKER_STATE_SICK:
		return true
	case workerv1.WorkerState_WORKER_STATE_ASLEEP:
		return !slices.ContainsFunc(c.GetLoads(), func(l *workerv1.RankLoad) bool { return l.GetRunning() > 0 })
	}
	return false
}

// Resting lists the workers, in order, that are paused and finish what runs, while each of their models has a ready worker.
func (v *View) Resting() []string {
	return v.workers(func(card *workerv1.WorkerCard) bool {
		return card.GetState() == workerv1.WorkerState_WORKER_STATE_ASLEEP && !stalled(card) &&
			!slices.ContainsFunc(card.GetModels(), func(m *workerv1.ServedModel) bool { return !v.Pools[m.GetId()].ready() })
	})
}

// workers lists those whose cards are as asked.
func (v *View) workers(are func(*workerv1.WorkerCard) bool) (ids []string) {
	for _, t := range v.Targets {
		last := len(ids) == 0 || ids[len(ids)-1] != t.Key.Worker
		if last && are(t.Card()) {
			ids = append(ids, t.Key.Worker)
		}
	}
	return ids
}

// ready reports whether a worker of the pool is.
func (p *Pool) ready() bool {
	return slices.ContainsFunc(p.Targets, func(t *Target) bool {
		return t.Card().GetState() == workerv1.WorkerState_WORKER_STATE_READY
	})
}

// Models lists the pools' names in order.
func (v *View) Models() []string {
	return slices.SortedFunc(maps.Keys(v.Pools), strings.Compare)
}
