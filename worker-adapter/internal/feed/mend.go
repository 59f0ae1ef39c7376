package feed

import (
	"context"
	"fmt"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq"
)

const (
	// mendTries bounds the attempts to fill one gap. Each may bring a part: a ROUTER drops what its peer's queue cannot
	// hold, so a long replay can end with a hole.
	mendTries = 5
	// mendBytes bounds one replay's memory; a publisher keeps 10,000 batches by default.
	mendBytes = 512 << 20
	// quietIdle bounds the silence in a check of an idle publisher, which has nothing else to do: what it publishes
	// meanwhile waits.
	quietIdle = 500 * time.Millisecond
)

// mended is a replay's result.
type mended struct {
	start int64
	// quiet is true for a check of an idle publisher: its failure says nothing.
	quiet bool
	got   []message
	err   error
}

// startMend fetches what was published since the batch applied last, in a goroutine that ends with ctx or its own time
// limit. The feed keeps live messages back until the result comes.
//
// Every replay begins with the batch applied last itself: only that batch tells whether the process that answers is the
// one that was followed. It may have been restarted since the gap was seen.
func (f *Feed) startMend(ctx context.Context) {
	f.state.Mending = true
	f.changed()
	if f.tries == 0 {
		f.began = time.Now()
	}
	f.fetch(ctx, mended{start: max(f.last, 0)})
}

// checkIdle asks an idle publisher for the batch applied last and what follows: the last batch of a burst can be lost,
// and nothing would show it before the next one.
func (f *Feed) checkIdle(ctx context.Context) {
	due := f.idle
	f.idle = true
	if due && f.state.Connected && f.mend == nil && f.cfg.Replay != "" {
		f.fetch(ctx, mended{start: max(f.last, 0), quiet: true})
	}
}

// fetch runs a replay in a goroutine of its own.
func (f *Feed) fetch(ctx context.Context, r mended) {
	f.mend = make(chan mended, 1)
	wait := time.Duration(0)
	if f.tries > 0 {
		wait = mendPause
	}
	req := f.request(r)
	go func(out chan<- mended) {
		if wait > 0 {
			t := time.NewTimer(wait)
			defer t.Stop()
			select {
			case <-ctx.Done():
			case <-t.C:
			}
		}
		held := 0
		r.err = zmq.Replay(ctx, req, func(u zmq.Update) error {
			if held += messageBytes + len(u.Payload); held > mendBytes {
				return fmt.Errorf("replay of more than %d bytes: %w", mendBytes, errStop)
			}
			p := append([]byte(nil), u.Payload...)
			r.got = append(r.got, message{kind: update, seq: u.Seq, payload: p})
			return nil
		})
		out <- r
	}(f.mend)
}

// request is a replay from a number on, whose silence ends with the time that the attempts have.
func (f *Feed) request(r mended) zmq.Request {
	idle := max(f.left(), mendPause)
	if r.quiet {
		idle = quietIdle
	}
	if f.cfg.ReplayIdle > 0 {
		idle = min(idle, f.cfg.ReplayIdle)
	}
	return zmq.Request{Endpoint: f.cfg.Replay, Start: uint64(r.start), Idle: min(idle, zmq.DefaultIdle)}
}

// left is how long live batches may still wait for a replay.
func (f *Feed) left() time.Duration { return f.cfg.ReplayWithin - time.Since(f.began) }

// finishMend applies a replay and then what was kept back.
func (f *Feed) finishMend(ctx context.Context, r mended) {
	if ctx.Err() != nil {
		return
	}
	if r.quiet && r.err != nil {
		f.release(ctx)
		return
	}
	if r.err == nil {
		f.state.ReplayFault = ""
	}
	got, next := f.judge(r)
	if next == startOver {
		f.last = noSeq
		f.startMend(ctx)
		return
	}
	n := 0
	for n < len(got) && (f.last == noSeq || int64(got[n].seq) == f.last+1) {
		f.apply(got[n].seq, got[n].payload)
		count(f.metric.Replayed)
		n++
	}
	if n > 0 {
		f.tries, f.began = 0, time.Now()
	}
	// A hole in the replay is asked for once more: the replay socket drops what its peer's queue cannot hold.
	if r.err != nil || n < len(got) {
		if f.tries++; f.tries < mendTries && f.left() > 0 {
			f.startMend(ctx)
			return
		}
		f.giveUp(r, n > 0)
	}
	f.tries = 0
	f.release(ctx)
}

// verdict says how a replay is used.
type verdict uint8

const (
	useIt verdict = iota
	startOver
)

// judge checks that a replay continues the sequence applied so far and cuts off what was applied. Where another process
// answers, or the batch applied last is no longer kept, everything is void and the whole buffer is asked for. Where the
// next batch is gone for good (the publisher used its number up without sending), everything before it is void.
func (f *Feed) judge(r mended) ([]message, verdict) {
	got := r.got
	switch {
	case f.last == noSeq:
		f.state.Incomplete = len(got) > 0 && got[0].seq > 0
		return got, useIt
	case len(got) == 0 && r.err != nil:
		return nil, useIt // nobody answered: nothing is known yet
	case len(got) == 0 || int64(got[0].seq) != f.last || xxh3.Hash(got[0].payload) != f.lastSum:
		f.restart("the worker was restarted, or its replay buffer no longer reaches back")
		return nil, startOver
	}
	got = got[1:]
	if f.tries > 0 && len(got) > 0 && int64(got[0].seq) > f.last+1 {
		f.restart("lost batches are not in the replay buffer")
		f.last = int64(got[0].seq) - 1
		f.state.Incomplete = true
	}
	return got, useIt
}

// giveUp ends the attempts to replay. Where no answer said that the process is the one that was followed, it is taken
// for another one.
func (f *Feed) giveUp(r mended, known bool) {
	count(f.metric.Unreplayed)
	f.log.Warn("replay of KV events failed", "endpoint", f.cfg.Replay, "error", r.err)
	if !known && len(r.got) == 0 && f.last != noSeq {
		f.restart("the replay does not answer: it is not known which process publishes")
		f.last = noSeq
	}
	f.state.Incomplete = true
	if r.err != nil {
		f.state.ReplayFault = r.err.Error()
	}
	for i := range f.pending {
		f.pending[i].gap = f.pending[i].kind == update
	}
}

// release lets the kept messages through. What came before a reconnection is left out: the replay that follows it
// begins with the batch applied last.
func (f *Feed) release(ctx context.Context) {
	f.state.Mending = false
	if f.dropped {
		f.dropped = false
		f.startMend(ctx)
		return
	}
	kept := f.pending
	f.pending, f.held = nil, 0
	for i := len(kept) - 1; i >= 0; i-- {
		if kept[i].kind == connected {
			kept = kept[i:]
			break
		}
	}
	for i, m := range kept {
		if m.gap {
			f.leap(m)
		}
		f.react(ctx, m)
		if f.mend == nil {
			continue
		}
		for _, rest := range kept[i+1:] {
			f.pending = append(f.pending, rest)
			f.held += messageBytes + len(rest.payload)
		}
		return
	}
	f.changed()
}

// leap moves over a gap that cannot be filled.
func (f *Feed) leap(m message) {
	seq := int64(m.seq)
	if seq <= f.last+1 {
		return
	}
	if f.last != noSeq {
		f.restart("lost batches could not be replayed")
	}
	f.last = seq - 1
	f.state.Incomplete = true
}
