// Package feed turns the streams of KV deltas into the index's contents and never lets them drift apart.
//
// Machine is the rules, without a clock, goroutine or network of its own: it is told what arrived and when, and says which
// snapshots it wants. Runner feeds it from the bus and fetches the snapshots. A stream is one rank of one worker:
//
//	empty   --snapshot--> live        nothing is known before the first snapshot
//	live    --gap, audit mismatch, bus disturbed--> mending: old contents stay, DEGRADED, until the snapshot replaces them
//	live    --new epoch--> empty      the old contents are dropped first: they may be of a process that is gone
//	mending --snapshot--> live        deltas that arrived meanwhile are applied on top, if they join without a gap
//
// A delta is applied exactly when it is of the stream's epoch and its seq is the next one. Heartbeats repeat the last seq,
// so a lost last delta shows; their count and digest are compared with the index's, so any other fault shows too.
package feed

import (
	"time"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
)

// Key names a stream.
type Key struct {
	Worker string
	Rank   uint32
}

// Ask is a snapshot that the machine wants. The receiver fills Load from Address and answers with Machine.Snapshot, once.
type Ask struct {
	Key     Key
	Attempt uint64
	Address string // the adapter's gRPC address
	Load    *index.Load
}

// Answer is the end of an Ask. With Err the load is worthless.
type Answer struct {
	Epoch  uint64
	Seq    uint64
	Digest uint64 // as the adapter stated it
	Err    error
}

// Limits bound time and memory.
type Limits struct {
	BufferUnits int           // units buffered per stream while a snapshot is on its way; past it the buffer is given up
	RetryMin    time.Duration // wait after the first failed snapshot; doubles up to RetryMax
	RetryMax    time.Duration
	AskTimeout  time.Duration // an ask without an answer has failed
	SilentAfter time.Duration // a stream without a message for this long is late
}

// DefaultLimits returns the defaults of the configuration.
func DefaultLimits() Limits {
	return Limits{
		BufferUnits: 1 << 20, RetryMin: 50 * time.Millisecond, RetryMax: time.Second,
		AskTimeout: 10 * time.Second, SilentAfter: 5 * time.Second,
	}
}

// Cause is why a stream needed a snapshot.
type Cause uint8

// The causes, as metrics and logs spell them.
const (
	CauseStart Cause = iota
	CauseEpoch
	CauseGap
	CauseAudit
	CauseBus
	CauseSnapshot // the snapshot itself failed or did not join the buffered deltas
	causeCount
)

// Causes lists every spelling.
func Causes() []string {
	out := make([]string, causeCount)
	for i := range out {
		out[i] = Cause(i).String()
	}
	return out
}

// String returns the spelling.
func (c Cause) String() string {
	return [...]string{"start", "epoch", "gap", "audit", "bus", "snapshot"}[c]
}

// Hooks tell the owner what happens. All are called with the machine's lock held and must not call back.
type Hooks struct {
	Ask     func(Ask)        // required
	Changed func(Key)        // a delta or snapshot was applied
	Mend    func(Key, Cause) // a snapshot became necessary
	Counts  *Counts          // required
}
