package stream

import (
	"time"

	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/feed"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
)

// PartUnits bounds the units of one part of a snapshot.
const PartUnits = 32_768

// Snapshot is all that a stream holds at one (epoch, seq).
type Snapshot struct {
	Epoch, Seq uint64
	// Tiers holds the units by mirror.Tier.
	Tiers  [3][]uint64
	Digest uint64
}

// Snapshot copies the units. Deltas wait for the copy, which takes about a millisecond per million units.
func (s *Stream) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Snapshot{Epoch: s.epoch, Seq: s.seq}
	if s.suspended {
		return out
	}
	out.Digest = s.mirror.Digest()
	for t := range out.Tiers {
		out.Tiers[t] = s.mirror.Units(mirror.Tier(t), nil)
	}
	return out
}

// Parts cuts the snapshot into messages and hands each to send, the last one marked. There is at least one.
func (s Snapshot) Parts(send func(*workerv1.SnapshotResponse) error) error {
	part := s.part(mirror.GPU, nil)
	for t, units := range s.Tiers {
		for len(units) > 0 {
			if len(part.Units) > 0 {
				if err := send(part); err != nil {
					return err
				}
			}
			n := min(len(units), PartUnits)
			part = s.part(mirror.Tier(t), units[:n])
			units = units[n:]
		}
	}
	part.Last, part.Digest = true, s.Digest
	return send(part)
}

// part is one message.
func (s Snapshot) part(t mirror.Tier, units []uint64) *workerv1.SnapshotResponse {
	return &workerv1.SnapshotResponse{Epoch: s.Epoch, Seq: s.Seq, Tier: workerv1.Tier(t + 1), Units: units}
}

// Status is what a card says of a stream.
type Status struct {
	Feed feed.State
	// Heard is when the last step came; zero before the first.
	Heard time.Time
	// Epoch and Reason are the present epoch and why it began.
	Epoch  uint64
	Reason string
	Mirror mirror.Stats
}

// Status is the state now.
func (s *Stream) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{Feed: s.feed, Heard: s.heard, Epoch: s.epoch, Reason: s.reason, Mirror: s.mirror.Stats()}
}
