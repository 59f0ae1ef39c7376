package feed

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
)

// The world of the model-based test: workers that store and remove blocks, their adapters, a bus that loses, repeats,
// delays and swaps messages, and schedulers. Time is a number, and one seed decides everything.

type unitSet map[workerv1.Tier]map[uint64]struct{}

func newUnitSet() unitSet {
	return unitSet{workerv1.Tier_TIER_GPU: {}, workerv1.Tier_TIER_CPU: {}}
}

func tiers() []workerv1.Tier { return []workerv1.Tier{workerv1.Tier_TIER_GPU, workerv1.Tier_TIER_CPU} }

// worker is the truth and, in one with it, its adapter's stream: epoch, seq and the mirror that snapshots are made of.
type worker struct {
	key   Key
	held  unitSet
	epoch uint64
	seq   uint64
	down  bool // its adapter answers no snapshots and sends nothing
	card  bool
	port  int // of its adapter, which may change at a restart
}

// step makes a random change and returns the deltas that its adapter publishes for it.
func (w *worker) step(r *rand.Rand) []*eventv1.KvDelta {
	tier := tiers()[r.IntN(2)]
	d := &eventv1.TierDelta{Tier: tier, Cleared: r.IntN(25) == 0}
	held := w.held[tier]
	if d.GetCleared() {
		clear(held)
	}
	for range r.IntN(6) {
		u := uint64(r.IntN(60))
		if _, ok := held[u]; ok || slices.Contains(d.GetAdded(), u) {
			continue // a duplicate store changes nothing in the mirror
		}
		d.Added = append(d.Added, u)
	}
	for _, u := range slices.Sorted(maps.Keys(held)) {
		if r.IntN(8) == 0 {
			d.Removed = append(d.Removed, u)
			delete(held, u)
		}
	}
	for _, u := range d.GetAdded() {
		held[u] = struct{}{}
	}
	if len(d.GetAdded())+len(d.GetRemoved()) == 0 && !d.GetCleared() {
		return nil
	}
	return w.publish(r, d)
}

// publish gives the change its seq, in two deltas now and then, as long steps are.
func (w *worker) publish(r *rand.Rand, d *eventv1.TierDelta) []*eventv1.KvDelta {
	parts := []*eventv1.TierDelta{d}
	if n := len(d.GetAdded()); n > 1 && r.IntN(4) == 0 {
		parts = []*eventv1.TierDelta{
			{Tier: d.GetTier(), Cleared: d.GetCleared(), Removed: d.GetRemoved(), Added: d.GetAdded()[:n/2]},
			{Tier: d.GetTier(), Added: d.GetAdded()[n/2:]},
		}
	}
	var out []*eventv1.KvDelta
	for _, p := range parts {
		w.seq++
		out = append(out, &eventv1.KvDelta{
			WorkerId: w.key.Worker, Rank: w.key.Rank, Epoch: w.epoch, Seq: w.seq, Tiers: []*eventv1.TierDelta{p},
		})
	}
	return out
}

func (w *worker) heartbeat() *eventv1.KvDelta {
	count, digest := w.sum()
	return &eventv1.KvDelta{
		WorkerId: w.key.Worker, Rank: w.key.Rank, Epoch: w.epoch, Seq: w.seq, Heartbeat: true,
		UnitCount: count, Digest: digest,
	}
}

func (w *worker) sum() (uint64, uint64) {
	var d kvblock.Digest
	count := uint64(0)
	for _, held := range w.held {
		for u := range held {
			d.Add(u)
			count++
		}
	}
	return count, d.Value()
}

// restart begins a new epoch: the adapter's alone, or with an emptied worker.
func (w *worker) restart(r *rand.Rand) {
	w.epoch += uint64(1 + r.IntN(3))
	if r.IntN(2) == 0 {
		w.port++
	}
	w.seq = 0
	if r.IntN(2) == 0 {
		w.held = newUnitSet()
	}
}

// address is where the adapter serves now.
func (w *worker) address() string { return fmt.Sprint("adapter:", w.port) }

// asked is a snapshot on its way to a scheduler.
type asked struct {
	sched *sched
	ask   Ask
	made  Answer
	due   time.Time
}

// sched is one scheduler: an index and the machine that feeds it.
type sched struct {
	index   *index.Index
	machine *Machine
	counts  *Counts
	streams map[Key]*Stream
}

// parcel is a message on its way to one scheduler.
type parcel struct {
	to  *sched
	msg *eventv1.KvDelta
	due time.Time
}

// world holds everything. calm turns off loss, so that it can come to rest.
type world struct {
	r       *rand.Rand
	now     time.Time
	workers []*worker
	scheds  []*sched
	parcels []parcel
	asks    []asked
	calm    bool
	rare    int // accidents happen to one message in this many, or a few times that
}

var errLost = errors.New("lost")

func newWorld(seed uint64) *world {
	w := &world{r: rand.New(rand.NewPCG(seed, 99)), now: time.Unix(1_000_000, 0)}
	w.rare = 10 + w.r.IntN(60)
	for i := range 1 + w.r.IntN(3) {
		w.workers = append(w.workers, &worker{
			key: Key{Worker: string(rune('a' + i/2)), Rank: uint32(i % 2)}, held: newUnitSet(), epoch: 1, card: true,
		})
	}
	for range 1 + w.r.IntN(2) {
		w.scheds = append(w.scheds, w.newSched())
	}
	return w
}

func (w *world) limits() Limits {
	l := DefaultLimits()
	l.BufferUnits = 40 // small, so that it overflows
	return l
}

func (w *world) newSched() *sched {
	s := &sched{index: index.New(index.Config{MaxUnits: 1 << 16}), counts: &Counts{}, streams: map[Key]*Stream{}}
	s.machine = New(s.index, w.limits(), Hooks{Counts: s.counts, Ask: func(a Ask) { w.ask(s, a) }})
	for _, k := range w.workers {
		if k.card {
			s.streams[k.key] = s.machine.Open(w.now, k.key, k.address())
		}
	}
	return s
}

// ask lets the snapshot be made now or a little later, and arrive later still.
func (w *world) ask(s *sched, a Ask) {
	w.asks = append(w.asks, asked{sched: s, ask: a, made: Answer{Err: errors.New("not made")}, due: w.later(30)})
}

func (w *world) later(ms int) time.Time {
	return w.now.Add(time.Duration(1+w.r.IntN(ms)) * time.Millisecond)
}

func (w *world) worker(k Key) *worker {
	for _, x := range w.workers {
		if x.key == k {
			return x
		}
	}
	return nil
}

// send puts a message on the bus, with its accidents.
func (w *world) send(msgs ...*eventv1.KvDelta) {
	for _, m := range msgs {
		for _, s := range w.scheds {
			if !w.calm && w.r.IntN(w.rare) == 0 {
				continue // lost
			}
			due := w.now.Add(time.Millisecond)
			if !w.calm && w.r.IntN(w.rare) == 0 {
				due = w.later(40) // late, behind others
			}
			w.parcels = append(w.parcels, parcel{s, m, due})
			if !w.calm && w.r.IntN(w.rare) == 0 {
				w.parcels = append(w.parcels, parcel{s, m, w.later(20)})
			}
		}
	}
}
