// Package feed turns a worker's event publisher into a gap-free sequence of steps.
//
// The publisher numbers its batches from 0 in each process, drops what a slow subscriber cannot take, and says nothing
// of a restart. A feed hears the live batches, asks the replay socket for what it missed, keeps live batches back
// meanwhile, applies each number once, and says when the sequence cannot be continued: then all knowledge is void.
package feed

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/zeebo/xxh3"
	"golang.org/x/sync/semaphore"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq"
)

// Sink takes what a feed hears. Calls come one at a time from the feed's goroutine.
type Sink interface {
	// Apply is one engine step.
	Apply(b *kvevents.Batch)
	// Restart means that everything before is void, and why.
	Restart(reason string)
	// Changed tells the feed's state.
	Changed(st State)
}

// State is what a feed knows about its publisher.
type State struct {
	// Connected is true while a connection stands.
	Connected bool
	// Mending is true while missed batches are being fetched.
	Mending bool
	// Incomplete is true when the sequence's start could not be replayed: the mirror knows too little, never too much.
	Incomplete bool
	// Fault is the last connection's end or failed attempt, empty while connected.
	Fault string
	// ReplayFault is why the last replay failed, empty after one that did not.
	ReplayFault string
}

// Config is one rank's publisher.
type Config struct {
	// Live is the PUB socket.
	Live zmq.Subscription
	// Replay is the ROUTER's endpoint; empty when the worker has none.
	Replay string
	// ReplayIdle is the longest silence within a replay; 0 is the client's own default.
	ReplayIdle time.Duration
	// ReplayWithin is how long live batches wait for a replay that brings nothing; 0 is 5 s. Then the feed goes on
	// without what it missed.
	ReplayWithin time.Duration
	// PendingBytes bounds the live batches kept back during a replay. Beyond it they are dropped and fetched by
	// another replay.
	PendingBytes int
	// IdleCheck is how long nothing is heard before the replay socket is asked whether the last batch was lost.
	IdleCheck time.Duration
}

// defaultIdleCheck is how long a lost last batch stays unseen. The answer is one batch, known already.
const defaultIdleCheck = 10 * time.Second

// defaultReplayWithin is some thirty times what a busy publisher's answer takes.
const defaultReplayWithin = 5 * time.Second

// DefaultPendingBytes holds the steps of several seconds of a busy worker.
const DefaultPendingBytes = 64 << 20

// liveQueue is how many live batches may wait for the feed's goroutine, liveBytes how much memory they may take. A full
// queue pushes back on the publisher.
const (
	liveQueue = 256
	liveBytes = 128 << 20
)

// messageBytes is what a batch takes beside its payload.
const messageBytes = 128

// noSeq means that no number is known.
const noSeq = -1

// Feed follows one publisher.
type Feed struct {
	cfg    Config
	sink   Sink
	log    *slog.Logger
	metric Metrics
	// All below belongs to the goroutine of Run.
	state State
	told  State
	batch kvevents.Batch
	// last is the number applied last, lastSum the hash of its payload.
	last    int64
	lastSum uint64
	// live is the number heard last on the present connection.
	live    int64
	pending []message
	held    int
	mend    chan mended
	tries   int
	// began is when the present attempts to fill one gap began.
	began time.Time
	// dropped is true when live batches were dropped during the present replay.
	dropped bool
	// idle is true when nothing was heard since the last tick.
	idle bool
}

// Metrics counts what happens to batches; any field may be nil.
type Metrics struct {
	// Gaps counts holes in the sequence, Replayed batches fetched, Restarts void sequences, Undecodable batches that
	// are no msgpack, Unreplayed gaps that no replay filled.
	Gaps, Replayed, Restarts, Undecodable, Unreplayed Counter
}

// Counter is the part of a Prometheus counter that a feed needs.
type Counter interface{ Inc() }

// count adds one to a counter that may be missing.
func count(c Counter) {
	if c != nil {
		c.Inc()
	}
}

// message is one thing that the connection said.
type message struct {
	kind    messageKind
	seq     uint64
	payload []byte
	room    int64 // of the live queue
	fault   error
	// gap is true for the batch that showed a gap: it was heard before the replay was asked for, so what the replay
	// does not bring before it is lost for good.
	gap bool
}

type messageKind uint8

const (
	connected messageKind = iota
	disconnected
	update
)

// New is a feed that has heard nothing yet.
func New(cfg Config, sink Sink, log *slog.Logger, metric Metrics) *Feed {
	if cfg.PendingBytes == 0 {
		cfg.PendingBytes = DefaultPendingBytes
	}
	if cfg.IdleCheck == 0 {
		cfg.IdleCheck = defaultIdleCheck
	}
	if cfg.ReplayWithin == 0 {
		cfg.ReplayWithin = defaultReplayWithin
	}
	return &Feed{cfg: cfg, sink: sink, log: log, metric: metric, last: noSeq, live: noSeq}
}

// Run follows the publisher until ctx ends and returns nil then. An error means that the endpoint can never work.
func (f *Feed) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	in := make(chan message, liveQueue)
	ended := make(chan error, 1)
	room := semaphore.NewWeighted(liveBytes)
	go func() { ended <- zmq.Subscribe(ctx, f.cfg.Live, &ear{ctx: ctx, in: in, room: room}) }()
	defer func() {
		cancel()
		if f.mend != nil {
			<-f.mend
		}
	}()
	tick := time.NewTicker(f.cfg.IdleCheck)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			f.checkIdle(ctx)
		case m := <-in:
			f.idle = false
			room.Release(m.room)
			f.take(ctx, m)
		case r := <-f.mend:
			f.mend = nil
			f.finishMend(ctx, r)
		}
	}
}

// ear passes what a subscription hears to the feed's goroutine.
type ear struct {
	ctx  context.Context
	in   chan message
	room *semaphore.Weighted
}

func (e *ear) Connected()             { e.put(message{kind: connected}) }
func (e *ear) Disconnected(err error) { e.put(message{kind: disconnected, fault: err}) }

// Updated copies the payload: the connection reuses its buffer.
func (e *ear) Updated(u zmq.Update) {
	room := int64(messageBytes + len(u.Payload))
	if e.room.Acquire(e.ctx, room) == nil {
		e.put(message{kind: update, seq: u.Seq, payload: append([]byte(nil), u.Payload...), room: room})
	}
}

func (e *ear) put(m message) {
	select {
	case e.in <- m:
	case <-e.ctx.Done():
	}
}

// take reacts to one message. During a replay all is kept back, in order.
func (f *Feed) take(ctx context.Context, m message) {
	if f.mend == nil {
		f.react(ctx, m)
		return
	}
	f.pending = append(f.pending, m)
	f.held += messageBytes + len(m.payload)
	if f.held > f.cfg.PendingBytes {
		f.log.Warn("live batches outgrew their bound during a replay", "bytes", f.held)
		f.dropPending()
		f.dropped = true
	}
}

// dropPending forgets kept batches but not what became of the connection.
func (f *Feed) dropPending() {
	kept := f.pending[:0]
	for _, m := range f.pending {
		if m.kind != update {
			kept = append(kept, m)
		}
	}
	f.pending, f.held = kept, 0
}

// react handles one message outside a replay.
func (f *Feed) react(ctx context.Context, m message) {
	switch m.kind {
	case connected:
		f.state.Connected, f.state.Fault = true, ""
		f.live = noSeq
		f.joined(ctx)
	case disconnected:
		f.state.Connected = false
		if m.fault != nil {
			f.state.Fault = m.fault.Error()
		}
		f.changed()
	case update:
		f.heard(ctx, m)
	}
}

// joined begins on a new connection. What was published before may be missing, and the process behind it may be
// another one.
func (f *Feed) joined(ctx context.Context) {
	if f.cfg.Replay != "" {
		f.startMend(ctx)
		return
	}
	if f.last != noSeq {
		f.restart("the connection to the publisher was lost and there is no replay")
	}
	f.last = noSeq
	f.changed()
}

// heard takes a live batch: the next one is applied, an earlier one is a repetition or a new process, a later one
// leaves a gap.
func (f *Feed) heard(ctx context.Context, m message) {
	seq := int64(m.seq)
	before := f.live
	f.live = seq
	switch {
	case seq <= before:
		f.restart("the worker's sequence went back: it was restarted")
		f.last = noSeq
		if seq > 0 && f.cfg.Replay != "" {
			f.keep(m)
			f.startMend(ctx)
			return
		}
		f.state.Incomplete = seq > 0
	case seq <= f.last:
		return // came by replay already
	case f.last == noSeq && (seq == 0 || f.cfg.Replay == ""):
		f.state.Incomplete = seq > 0
	case seq > f.last+1:
		count(f.metric.Gaps)
		f.log.Warn("gap in KV events", "last", f.last, "next", seq)
		if f.cfg.Replay != "" {
			f.keep(m)
			f.startMend(ctx)
			return
		}
		f.restart("batches were lost and there is no replay")
		f.state.Incomplete = true
	}
	f.apply(m.seq, m.payload)
}

// keep puts a message back for after the replay.
func (f *Feed) keep(m message) {
	m.gap = true
	f.pending = append(f.pending, m)
	f.held += messageBytes + len(m.payload)
	f.live = noSeq
}

// apply decodes a batch and hands it on. The number counts as applied even when the bytes are no batch: it is used up.
func (f *Feed) apply(seq uint64, payload []byte) {
	f.last, f.lastSum = int64(seq), xxh3.Hash(payload)
	if err := kvevents.Decode(payload, &f.batch); err != nil {
		count(f.metric.Undecodable)
		f.log.Warn("undecodable KV events", "seq", seq, "error", err)
	}
	f.sink.Apply(&f.batch)
	if f.state != f.told {
		f.changed()
	}
}

// restart voids the sequence.
func (f *Feed) restart(reason string) {
	count(f.metric.Restarts)
	f.state.Incomplete = false
	f.sink.Restart(reason)
}

// changed reports the state.
func (f *Feed) changed() {
	f.told = f.state
	f.sink.Changed(f.state)
}

// errStop ends a replay early.
var errStop = errors.New("replay stopped")

// mendPause separates attempts to replay.
const mendPause = 200 * time.Millisecond
