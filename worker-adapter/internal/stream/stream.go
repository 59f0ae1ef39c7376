// Package stream publishes a rank's mirror: epochs, numbered deltas, heartbeats, snapshots.
//
// An epoch begins empty and only grows in number; what earlier epochs said is void. Within one, each delta has the next
// seq, so that a consumer sees a loss, and a snapshot names the (epoch, seq) that it holds. Mirror, number and
// publication change under one lock: a snapshot is exact while events flow.
package stream

import (
	"log/slog"
	"sync"
	"time"

	eventv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/feed"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
)

// MaxDeltaUnits bounds the units of one delta: 60,000 make 480 KiB, half of what NATS takes by default.
const MaxDeltaUnits = 60_000

// Publish sends one delta. It must not block and must keep the order of calls. A delta that is lost is a gap that
// consumers see; so an error is counted and not retried.
type Publish func(*eventv1.KvDelta) error

// Config is what a stream is of.
type Config struct {
	WorkerID string
	Rank     uint32
	Mirror   mirror.Config
}

// Deps are what a stream works with. Clock gives the epochs their numbers.
type Deps struct {
	Log     *slog.Logger
	Publish Publish
	Clock   func() time.Time
	Metrics Metrics
}

// Counter is the part of a Prometheus counter that a stream needs.
type Counter interface{ Add(float64) }

// Metrics counts what was published; any field may be nil.
type Metrics struct {
	// Deltas and Units count what left, Lost what could not be published, Epochs the beginnings.
	Deltas, Units, Lost, Epochs Counter
}

// Stream is one rank's. Its methods may be called from any goroutine.
type Stream struct {
	cfg  Config
	deps Deps

	mu     sync.Mutex
	mirror *mirror.Mirror
	epoch  uint64
	seq    uint64
	beaten uint64 // seq of the last heartbeat of this epoch
	// suspended withholds the mirror: an epoch that holds nothing stands until the worker's next step.
	suspended bool
	feed      feed.State
	heard     time.Time
	reason    string
}

// New is an empty stream in a new epoch.
func New(cfg Config, deps Deps) *Stream {
	s := &Stream{cfg: cfg, deps: deps, mirror: mirror.New(cfg.Mirror)}
	s.begin("the adapter started")
	return s
}

// Apply takes one engine step in and publishes what it changed. It is the feed's.
func (s *Stream) Apply(b *kvevents.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = s.deps.Clock()
	d := s.mirror.Apply(b)
	if s.suspended {
		s.whole("the worker's next step told what it still holds")
		return
	}
	s.emit(d, "the worker's cache was cleared or its block size changed")
}

// Restart voids everything: the worker restarted, or batches are lost for good. It is the feed's.
func (s *Stream) Restart(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emit(s.mirror.Reset(), reason)
}

// Changed keeps the feed's state. It is the feed's.
func (s *Stream) Changed(st feed.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed = st
}

// Clear is for a reset or sleep of the engine that is known before its event.
func (s *Stream) Clear(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mirror.Blocks(mirror.GPU) > 0 {
		s.emit(s.mirror.Clear(), reason)
	}
}

// Suspend is for an engine that may have forgotten its cache and tells so with its next step only: until that step nothing
// is claimed, afterwards what is still held.
func (s *Stream) Suspend(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.suspended && s.mirror.Stats().Blocks > 0 {
		s.suspended = true
		s.begin(reason)
	}
}

// Release ends Suspend without a step that told: by other signs nothing was forgotten.
func (s *Stream) Release(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspended {
		s.whole(reason)
	}
}

// Void is for a worker that is gone: all tiers go with its process.
func (s *Stream) Void(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mirror.Stats().Blocks > 0 {
		s.emit(s.mirror.Reset(), reason)
	}
}

// DropLoRA takes the units of an adapter out whose name was pointed elsewhere.
func (s *Stream) DropLoRA(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emit(s.mirror.DropLoRA(name), "")
}

// SetCapacity bounds the mirror by the worker's own pool, in blocks.
func (s *Stream) SetCapacity(blocks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mirror.SetCapacity(blocks)
}

// emit publishes a delta; one that voids the past begins an epoch and carries all that is held.
func (s *Stream) emit(d *mirror.Delta, reason string) {
	if d.Reset {
		s.whole(reason)
		return
	}
	if !s.suspended {
		s.publish(tierLists(d))
	}
}

// whole begins an epoch with all that is held.
func (s *Stream) whole(reason string) {
	s.suspended = false
	s.begin(reason)
	var whole [3]lists
	for t := range whole {
		whole[t].added = s.mirror.Units(mirror.Tier(t), nil)
	}
	s.publish(whole)
}

// begin starts an epoch and says so at once. Numbers come from the clock, so that they grow over restarts of the
// adapter, and by one at least.
func (s *Stream) begin(reason string) {
	s.epoch = max(s.epoch+1, uint64(s.deps.Clock().UnixMilli()))
	s.seq, s.reason = 0, reason
	add(s.deps.Metrics.Epochs, 1)
	s.deps.Log.Info("new epoch", "rank", s.cfg.Rank, "epoch", s.epoch, "reason", reason)
	s.send(&eventv1.KvDelta{Heartbeat: true})
}

// lists is one tier's change.
type lists struct{ added, removed []uint64 }

// tierLists are the changes of a mirror's delta.
func tierLists(d *mirror.Delta) (out [3]lists) {
	for t := range d.Tiers {
		out[t] = lists{d.Tiers[t].Added, d.Tiers[t].Removed}
	}
	return out
}

// publish sends the changes in as many deltas as their size asks for, removals first.
func (s *Stream) publish(tiers [3]lists) {
	var out []*workerTier
	room := MaxDeltaUnits
	flush := func() {
		if len(out) > 0 {
			s.seq++
			s.send(&eventv1.KvDelta{Tiers: out})
		}
		out, room = nil, MaxDeltaUnits
	}
	for t, l := range tiers {
		for len(l.added)+len(l.removed) > 0 {
			td := &workerTier{Tier: workerv1.Tier(t + 1)}
			td.Removed, l.removed = cut(l.removed, &room)
			td.Added, l.added = cut(l.added, &room)
			out = append(out, td)
			if room == 0 {
				flush()
			}
		}
	}
	flush()
}

// workerTier is the wire form of a tier's change.
type workerTier = eventv1.TierDelta

// cut takes as many units from the front as there is room for. The result is a copy: the mirror reuses its lists, and a
// published message may not change.
func cut(units []uint64, room *int) (head, rest []uint64) {
	n := min(len(units), *room)
	*room -= n
	if n == 0 {
		return nil, units
	}
	return append([]uint64(nil), units[:n]...), units[n:]
}

// send publishes one message.
func (s *Stream) send(d *eventv1.KvDelta) {
	d.WorkerId, d.Rank, d.Epoch, d.Seq = s.cfg.WorkerID, s.cfg.Rank, s.epoch, s.seq
	if d.Heartbeat {
		s.beaten = s.seq
		if !s.suspended {
			d.UnitCount, d.Digest = uint64(s.mirror.Count()), s.mirror.Digest()
		}
	}
	if err := s.deps.Publish(d); err != nil {
		add(s.deps.Metrics.Lost, 1)
		s.deps.Log.Warn("delta lost", "rank", s.cfg.Rank, "epoch", s.epoch, "seq", s.seq, "error", err)
		return
	}
	add(s.deps.Metrics.Deltas, 1)
	for _, t := range d.Tiers {
		add(s.deps.Metrics.Units, float64(len(t.Added)+len(t.Removed)))
	}
}

// add adds to a counter that may be missing.
func add(c Counter, n float64) {
	if c != nil {
		c.Add(n)
	}
}

// Heartbeat repeats the last seq with the number and digest of the units held, so that consumers see a lost last delta
// and any drift. Call it every second.
func (s *Stream) Heartbeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(&eventv1.KvDelta{Heartbeat: true})
}

// Confirm sends a heartbeat if deltas have been sent since the last one: a lost last delta is then seen within the pause
// between two calls.
func (s *Stream) Confirm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seq != s.beaten {
		s.send(&eventv1.KvDelta{Heartbeat: true})
	}
}
