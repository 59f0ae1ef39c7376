package operation

import (
	"net/http"
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/gateway/internal/dispatch"
	"github.com/kvmesh/kvmesh/gateway/internal/reply"
)

// beating is a writer that fills silence with comment lines. The relay hands it whole events only, so a comment never
// falls inside one.
type beating struct {
	mu      sync.Mutex
	w       reply.Writer
	wrote   bool // something went out since the last beat
	head    bool
	wrap    bool // a plain answer came after the head of a stream
	stopped bool

	anthropic bool // events have names
	trailers  []string
}

// comment is the line that keeps a connection in use; clients skip it by the SSE rules.
const comment = ": keep-alive\n\n"

// keepalive starts the beat of a stream where it is configured. The task's end stops it and waits for its goroutine.
func (s *Service) keepalive(t *task, stream bool) {
	if s.cfg.Keepalive <= 0 || !stream {
		return
	}
	b := &beating{w: t.w, anthropic: t.in.Anthropic, trailers: []string{dispatch.CachedHeader}}
	if s.cfg.Continue {
		b.trailers = append(b.trailers, ContinuedTrailer)
	}
	t.w = b
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(s.cfg.Keepalive)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-t.ctx.Done():
				return
			case <-tick.C:
				b.beat()
			}
		}
	})
	t.ends = append(t.ends, func() {
		close(quit)
		wg.Wait()
	})
}

// beat sends a comment if nothing went out since the last one; the first one takes the head along.
func (b *beating) beat() {
	b.mu.Lock()
	defer b.mu.Unlock()
	quiet := !b.wrote
	b.wrote = false
	if !quiet || b.stopped {
		return
	}
	if !b.head {
		b.head = true
		h := &reply.Head{Status: http.StatusOK, ContentType: "text/event-stream; charset=utf-8", Length: -1, Trailers: b.trailers}
		if b.w.Head(h) != nil {
			b.stopped = true
			return
		}
	}
	b.stopped = b.w.Data([]byte(comment)) != nil
}

// Head passes unless a beat has sent one; a plain answer then travels as an event.
func (b *beating) Head(h *reply.Head) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.head {
		b.wrap = h.Length >= 0
		return nil
	}
	b.head = true
	b.stopped = h.Length >= 0
	return b.w.Head(h)
}

// Data passes.
func (b *beating) Data(p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrote = true
	if b.wrap {
		p = b.event(p)
	}
	return b.w.Data(p)
}

// event is a plain answer, which after the head of a stream is an error, as one event.
func (b *beating) event(p []byte) []byte {
	if b.anthropic {
		return append([]byte("event: error\n"), asEvent(p)...)
	}
	return asEvent(p)
}

// asEvent is a JSON text as an event; a line end, which is white space there, would end its data.
func asEvent(p []byte) []byte {
	out := append(make([]byte, 0, len(p)+8), "data: "...)
	for _, c := range p {
		if c == '\n' || c == '\r' {
			c = ' '
		}
		out = append(out, c)
	}
	return append(out, "\n\n"...)
}

// Trailer passes.
func (b *beating) Trailer(name, value string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.w.Trailer(name, value)
}
