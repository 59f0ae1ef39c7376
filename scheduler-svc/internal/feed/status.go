package feed

import (
	"sync/atomic"
	"time"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
)

// State is how far a stream's contents can be trusted.
type State uint8

// The states of a stream.
const (
	Empty   State = iota // nothing known: a snapshot is awaited
	Live                 // current up to the last message
	Mending              // contents from before a gap; a snapshot is awaited
)

// Stream is a reader's handle on one stream. All methods are safe beside the machine.
type Stream struct {
	key     Key
	holder  *index.Stream
	state   atomic.Uint32
	epoch   atomic.Uint64
	seq     atomic.Uint64
	heardNS atomic.Int64 // unix nanoseconds of the last message, 0 before the first
	hybrid  atomic.Bool
}

// Key names the stream.
func (s *Stream) Key() Key { return s.key }

// Number is the stream's place in an index walk.
func (s *Stream) Number() int { return s.holder.Number() }

// Units is what the index holds for the stream.
func (s *Stream) Units() int { return s.holder.Units() }

// Holds reports whether the index has the unit for this stream.
func (s *Stream) Holds(unit uint64) bool { return s.holder.Holds(unit) }

// Hybrid reports that the units held are only the path to boundaries at which hits end, as those of a hybrid model are.
func (s *Stream) Hybrid() bool { return s.hybrid.Load() }

// Reach cuts a hybrid stream's prefix of units to the deepest boundary in it, looking at every step units from the
// start: a worker's blocks end there. A hit cannot be longer, and not shorter either.
func (s *Stream) Reach(units []uint64, step int) int {
	for n := len(units) / step * step; n > 0; n -= step {
		if s.holder.Holds(kvblock.Boundary(units[n-1])) {
			return n
		}
	}
	return 0
}

// Bounded reports that the index's bounds took units from the stream.
func (s *Stream) Bounded() bool { return s.holder.Lost() > 0 }

// State returns the stream's state.
func (s *Stream) State() State { return State(s.state.Load()) }

// Position returns epoch and seq applied.
func (s *Stream) Position() (epoch, seq uint64) { return s.epoch.Load(), s.seq.Load() }

// Heard returns when the last message came; false before the first.
func (s *Stream) Heard() (time.Time, bool) {
	ns := s.heardNS.Load()
	return time.Unix(0, ns), ns != 0
}

// Counts are totals since the start.
type Counts struct {
	Deltas     atomic.Uint64 // applied
	Units      atomic.Uint64 // added and removed by applied deltas
	Heartbeats atomic.Uint64
	Duplicates atomic.Uint64 // of a seq that was applied before, or of an older epoch
	Strangers  atomic.Uint64 // of a stream without a card
	Overflows  atomic.Uint64 // buffers given up
	Audits     atomic.Uint64 // digests compared
	Mismatches atomic.Uint64 // digests that differed
	Snapshots  atomic.Uint64 // applied
	Failures   atomic.Uint64 // snapshots that failed
	Mends      [causeCount]atomic.Uint64
}
