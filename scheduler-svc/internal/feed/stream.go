package feed

import (
	"time"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
)

// stream is one stream's state. The machine's lock guards it; the embedded handle is atomic.
type stream struct {
	Stream
	machine *Machine
	address string

	newest  uint64 // greatest epoch heard of
	attempt uint64 // of the ask that is on its way, 0 for none
	asked   time.Time
	retryAt time.Time
	settled time.Time // when the last snapshot made the stream live
	backoff time.Duration

	buffer   []*eventv1.KvDelta
	buffered int // units in buffer
}

// delta applies, buffers or refuses one message.
func (s *stream) delta(now time.Time, d *eventv1.KvDelta) {
	if d.GetEpoch() < s.newest && !s.late(now) {
		s.machine.hooks.Counts.Duplicates.Add(1)
		return
	}
	s.heardNS.Store(now.UnixNano())
	if d.GetEpoch() != s.newest {
		s.newEpoch(now, d.GetEpoch())
	}
	switch {
	case d.GetHeartbeat():
		s.heartbeat(now, d)
	case s.State() != Live:
		s.keep(d)
	default:
		s.inOrder(now, d)
	}
}

// late reports whether the stream has been silent for long. Then an older epoch is believed too: its adapter's clock was
// set back.
func (s *stream) late(now time.Time) bool {
	heard, ok := s.Heard()
	return ok && now.Sub(heard) > s.machine.limits.SilentAfter
}

// newEpoch drops what earlier epochs left. The first epoch heard while the first snapshot is on its way changes nothing.
func (s *stream) newEpoch(now time.Time, epoch uint64) {
	first := s.newest == 0 && s.State() == Empty
	s.newest = epoch
	if now.Sub(s.settled) >= s.machine.limits.RetryMax { // its adapter is there, whatever failed before
		s.backoff, s.retryAt = 0, time.Time{}
	}
	s.forgetBuffer()
	if first {
		return
	}
	s.holder.Drop()
	s.state.Store(uint32(Empty))
	s.mend(now, CauseEpoch)
}

func (s *stream) heartbeat(now time.Time, d *eventv1.KvDelta) {
	c := s.machine.hooks.Counts
	c.Heartbeats.Add(1)
	if s.State() != Live {
		return
	}
	switch seq := s.seq.Load(); {
	case d.GetSeq() > seq:
		s.mend(now, CauseGap)
	case d.GetSeq() < seq: // overtaken by a delta
		c.Duplicates.Add(1)
	default:
		s.audit(now, d)
	}
}

// audit compares the index with the worker's mirror at the same seq. A stream that lost units to the index's bounds
// cannot be compared.
func (s *stream) audit(now time.Time, d *eventv1.KvDelta) {
	if s.holder.Lost() > 0 {
		return
	}
	c := s.machine.hooks.Counts
	c.Audits.Add(1)
	if uint64(s.holder.Units()) != d.GetUnitCount() || s.holder.Digest() != d.GetDigest() {
		c.Mismatches.Add(1)
		s.mend(now, CauseAudit)
	}
}

// inOrder applies the next delta of a live stream.
func (s *stream) inOrder(now time.Time, d *eventv1.KvDelta) {
	switch seq := s.seq.Load(); {
	case d.GetSeq() <= seq:
		s.machine.hooks.Counts.Duplicates.Add(1)
	case d.GetSeq() > seq+1:
		s.mend(now, CauseGap)
		s.keep(d)
	default:
		s.apply(d)
		s.changed()
	}
}

func (s *stream) apply(d *eventv1.KvDelta) {
	c := s.machine.hooks.Counts
	for _, t := range d.GetTiers() {
		tier := TierOf(t.GetTier())
		if t.GetCleared() {
			s.holder.Clear(tier)
		}
		s.holder.Remove(tier, t.GetRemoved())
		s.holder.Add(tier, t.GetAdded())
		c.Units.Add(uint64(len(t.GetAdded()) + len(t.GetRemoved())))
	}
	s.seq.Store(d.GetSeq())
	c.Deltas.Add(1)
}

func (s *stream) changed() {
	s.hybrid.Store(s.holder.Holds(kvblock.HybridMark))
	if s.machine.hooks.Changed != nil {
		s.machine.hooks.Changed(s.key)
	}
}

// TierOf maps the wire's tier; an unknown one is the device's.
func TierOf(t workerv1.Tier) index.Tier {
	switch t {
	case workerv1.Tier_TIER_CPU:
		return index.Host
	case workerv1.Tier_TIER_STORAGE:
		return index.Storage
	default:
		return index.Device
	}
}
