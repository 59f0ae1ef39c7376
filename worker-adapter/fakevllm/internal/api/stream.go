package api

import (
	"context"
	"net/http"
	"time"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/engine"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/fault"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

const sseType = "text/event-stream; charset=utf-8"

// sse writes server-sent events, one write each. It belongs to one request's goroutine.
type sse struct {
	w      http.ResponseWriter
	flush  func() error
	buf    []byte
	sent   int // events
	faults fault.Set
	failed bool // an error event has ended the stream
}

// newSSE sets the stream's type; the status goes out with the first event.
func (h *Handler) newSSE(w http.ResponseWriter) *sse {
	w.Header().Set("Content-Type", sseType)
	return &sse{w: w, flush: http.NewResponseController(w).Flush, buf: make([]byte, 0, 512), faults: h.faults()}
}

// event sends what is in buf as one event. Afterwards it may cut the connection, if that fault is on.
func (s *sse) event() {
	_, _ = s.w.Write(s.buf)
	_ = s.flush()
	s.buf = s.buf[:0]
	s.sent++
	if s.faults.CutStreamAfter > 0 && s.sent >= s.faults.CutStreamAfter {
		panic(http.ErrAbortHandler)
	}
	if s.faults.ErrorEventAfter > 0 && s.sent == s.faults.ErrorEventAfter {
		s.buf = appendErrorEvent(s.buf, &request.Error{
			Status: http.StatusInternalServerError, Type: "InternalServerError", Message: "EngineCore encountered an issue. " +
				"See stack trace (above) for the root cause. (simulated fault)",
		})
		s.failed = true
	}
}

// done writes what is left and the end marker.
func (s *sse) done() {
	s.buf = append(s.buf, doneEvent...)
	_, _ = s.w.Write(s.buf)
	_ = s.flush()
}

// faults returns the switches; without any the worker is healthy.
func (h *Handler) faults() fault.Set {
	if h.deps.Faults == nil {
		return fault.Set{}
	}
	return h.deps.Faults.Get()
}

// holdFirstByte waits as the delay_first_byte_ms fault says.
func (h *Handler) holdFirstByte(ctx context.Context) {
	ms := h.faults().DelayFirstByteMS
	if ms == 0 {
		return
	}
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// part is what one streamed chunk says of a sequence: tokens [from, to), the last of them if final.
type part struct {
	s        *sequence
	from, to int
	final    bool
}

// relay passes on tokens as they come to be, one chunk per token or per stream_interval, until all sequences have
// ended; false if the client went away or a fault ended the stream.
func (g *generation) relay(ctx context.Context, out *sse, emit func(part)) bool {
	for {
		open := false
		for _, s := range g.seqs { // states first: what is final now has all its tokens
			s.state = s.seq.State()
			open = open || s.state < engine.Finished
		}
		for again := true; again && !out.failed; { // one part of each in turn, as their steps made them
			again = false
			for _, s := range g.seqs {
				again = g.advance(out, s, emit) || again
			}
		}
		if out.failed {
			g.drop()
			return false
		}
		if !open {
			return true
		}
		select {
		case <-ctx.Done():
			g.drop()
			return false
		case <-g.notify:
		}
	}
}

// advance emits the next part of a sequence; false if there is none yet.
func (g *generation) advance(out *sse, s *sequence, emit func(part)) bool {
	if s.done || out.failed {
		return false
	}
	have := s.seq.Produced()
	n := 1
	if s.sent > 0 {
		n = max(1, g.common.StreamInterval)
	}
	to := min(s.sent+n, have)
	whole := to == len(s.plan.ids)
	switch {
	case to > s.sent && (to-s.sent == n || whole):
	case s.state == engine.Aborted && to == s.sent:
		whole = true
	case s.state == engine.Aborted:
	default:
		return false
	}
	s.done = whole
	emit(part{s: s, from: s.sent, to: to, final: whole})
	s.sent = to
	return true
}
