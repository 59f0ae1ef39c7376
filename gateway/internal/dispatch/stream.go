package dispatch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/openai"
	"github.com/kvmesh/kvmesh/gateway/internal/sse"
	"github.com/kvmesh/kvmesh/gateway/internal/wire"
)

// Stream is a worker's event stream. Only whole events leave it: what a broken connection leaves of an event never
// reaches the client. It is used by one goroutine.
type Stream struct {
	resp  *wire.Response
	lease *Lease
	want  want
	ctx   context.Context
	idle  time.Duration

	buf      []byte // [0, ready) was handed out, [ready, filled) is kept
	lent     *[]byte
	pool     *bufferPool
	limit    int
	burst    bool // the last read filled the buffer: more lies in the kernel
	ready    int  // end of the events handed out by the last Next
	held     int  // length of the last choice's end, which stands at ready until the usage is seen
	scanned  int  // end of what the splitter has seen
	filled   int
	splitter sse.Splitter
	shape    shape
	first    []byte // events read before the head went out
	over     error  // how the stream ended while they were read

	named    bool // events have names: an API without [DONE]
	done     bool // [DONE] was seen
	data     int  // data events seen
	finished int  // choices with a finish_reason
	failed   bool // the worker said so in the stream
	told     bool // an error event went to the client: it needs no second one
	events   int64
	usage    openai.Usage
	hasUsage bool

	fingerprint []byte // of the hidden usage chunk, as JSON

	lead     *openai.Chunk // the first data event when it is an error
	leadData []byte
	detached bool
}

// openStream reads up to the first data event: an error there is the attempt's failure, not the client's stream.
func (d *Dispatcher) openStream(ctx context.Context, a *Answer) (*Answer, error) {
	s := &Stream{
		resp: a.resp, lease: a.Lease, want: a.want, ctx: ctx, idle: d.cfg.StreamIdle, pool: &d.buffers, limit: d.cfg.MaxEventBytes,
		splitter: sse.NewSplitter(),
	}
	s.lent = s.pool.get()
	s.buf = *s.lent
	a.Stream, a.resp = s, nil
	for s.data == 0 && !s.done {
		kept := s.first
		batch, err := s.Next()
		s.first = append(kept, batch...)
		if err != nil && s.data == 0 {
			s.close(d)
			d.lost(ctx, a.Lease, a.Status)
			return nil, fault.Wrap(faultv1.Reason_REASON_WORKER_FAILED, err, "The worker's stream ended before it began.")
		}
		if err != nil {
			s.over = err
			break
		}
	}
	a.Lease.FirstToken()
	if s.lead != nil {
		return d.refused(a)
	}
	return a, nil
}

// refused turns a stream whose first event is an error into a plain answer with the error's own status.
func (d *Dispatcher) refused(a *Answer) (*Answer, error) {
	s := a.Stream
	code := s.lead.ErrorCode
	if code < 400 || code > 599 {
		code = openai.StatusOfType(s.lead.ErrorType)
	}
	a.Status, a.ContentType, a.Body, a.Stream = code, "application/json", bytes.Clone(s.leadData), nil
	s.close(d)
	a.retryable = retryableStatus(code)
	if a.retryable {
		a.Lease.Settle(Result{Outcome: outcomeOf(code), Status: code})
	}
	return a, nil
}

// First is the events that were read before the head goes out. They are valid until Next.
func (s *Stream) First() []byte { return s.first }

// Next is the next whole events, valid until the next call; it reads once where that is enough. io.EOF is a proper end: after
// [DONE], or after the end of an API that has none. Faults: STREAM_BROKEN, DEADLINE_EXCEEDED, CANCELLED. Events may come
// together with an error.
func (s *Stream) Next() ([]byte, error) {
	s.first = nil
	if s.over != nil {
		return nil, s.over
	}
	for {
		if s.done {
			return nil, io.EOF
		}
		s.compact()
		if s.scanned == s.filled {
			if err := s.read(); err != nil {
				return s.release(), err
			}
		}
		batch, err := s.split()
		if len(batch) > 0 || err != nil {
			return batch, err
		}
	}
}

// compact drops what was handed out and makes room.
func (s *Stream) compact() {
	if s.ready > 0 {
		copy(s.buf, s.buf[s.ready:s.filled])
		s.scanned -= s.ready
		s.filled -= s.ready
		s.ready = 0
	}
	if s.filled == len(s.buf) || s.burst && len(s.buf) < burstBytes {
		s.burst = false
		grown := make([]byte, 2*len(s.buf))
		copy(grown, s.buf)
		s.buf = grown
	}
}

// read waits for bytes.
func (s *Stream) read() error {
	if s.filled > s.limit {
		s.failed = true
		return broken(nil)
	}
	if s.idle > 0 {
		s.resp.WakeAfter(s.ctx, s.idle)
	}
	s.lease.watch.turn()
	n, err := s.resp.Read(s.buf[s.filled:])
	s.lease.watch.turn()
	s.burst = 8*n > 7*(len(s.buf)-s.filled) // framing takes a few bytes of each chunk
	s.filled += n
	switch {
	case n > 0 && err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return s.end()
	case s.ctx.Err() != nil && !cut(s.ctx):
		return ended(s.ctx)
	}
	return s.broke(err)
}

// broke is the end of a stream that broke off.
func (s *Stream) broke(err error) error {
	s.failed = true
	if s.told {
		return io.EOF
	}
	return broken(err)
}

// end judges a clean end of the body without [DONE].
func (s *Stream) end() error {
	s.done = true
	if s.named || !s.want.generates {
		return io.EOF
	}
	if s.finished >= s.want.n && s.data > 0 {
		return errUnmarked
	}
	return s.broke(nil)
}

// errUnmarked is the end of a complete stream that lacks its [DONE].
var errUnmarked = errors.New("stream ended without [DONE]")

// Unmarked tells whether err is a complete stream's end whose [DONE] is missing.
func Unmarked(err error) bool { return errors.Is(err, errUnmarked) }

func broken(err error) error {
	return fault.Wrap(faultv1.Reason_REASON_STREAM_BROKEN, err, "The worker's stream ended early.")
}

// split looks at the bytes that came and hands out the whole events among them.
func (s *Stream) split() ([]byte, error) {
	start := s.ready
	for !s.done {
		from := start + s.held
		end := s.splitter.Next(s.buf[:s.filled], s.scanned)
		if end < 0 {
			s.scanned = s.filled
			break
		}
		s.scanned = end
		what, err := s.look(s.buf[from:end])
		if err != nil {
			s.done = true
			return s.buf[:from], err
		}
		switch what {
		case show:
			start, s.held = end, 0
		case hold:
			start, s.held = from, end-from
		case hide:
			start = s.hide(start, from, end)
		}
	}
	s.ready = start
	return s.buf[:start], nil
}

// verdict is what becomes of an event.
type verdict uint8

const (
	show verdict = iota
	hide
	hold // until the next event is known
)

// Marks that make an event worth reading as JSON. A quote inside a JSON string is always escaped, so these cannot be part
// of a text.
var (
	markOpen   = []byte(`"finish_reason":null`)
	markFinish = []byte(`"finish_reason"`)
	markUsage  = []byte(`"usage"`)
	markError  = []byte(`"error"`)
)

// look counts an event and decides whether the client sees it. Most events are tokens and differ from the one before in
// text alone.
func (s *Stream) look(event []byte) (verdict, error) {
	if s.shape.fits(event) {
		s.data++
		s.events++
		return show, nil
	}
	if s.data > 0 && bytes.HasPrefix(event, []byte("data: {")) && bytes.Contains(event, markOpen) &&
		!bytes.Contains(event, markUsage) && !bytes.Contains(event, markError) {
		s.data++
		s.events++
		s.shape.learn(event)
		return show, nil
	}
	e := sse.Parse(event)
	if e.Data == nil {
		return show, nil
	}
	if e.IsDone() {
		s.done = true
		return show, nil
	}
	s.data++
	s.named = s.named || len(e.Name) > 0
	s.events++
	if s.data > 1 && !bytes.Contains(event, markFinish) && !bytes.Contains(event, markUsage) &&
		!bytes.Contains(event, markError) {
		return show, nil
	}
	return s.read1(e)
}

// read1 reads one event's JSON.
func (s *Stream) read1(e sse.Event) (verdict, error) {
	c, ok := openai.ReadChunk(e.Data)
	if !ok {
		return show, nil
	}
	if c.Error && c.Count == 0 {
		if s.data == 1 {
			s.lead, s.leadData = &c, bytes.Clone(e.Data)
		}
		s.told = true
		s.failed = c.ErrorCode == 0 || outcomeOf(c.ErrorCode) == schedulerv1.Outcome_OUTCOME_FAILED
		return show, nil
	}
	if c.Usage != nil {
		s.usage, s.hasUsage = *c.Usage, true
	}
	if c.Aborted {
		s.failed = true
		return hide, fault.New(faultv1.Reason_REASON_STREAM_BROKEN, "The worker aborted the request.")
	}
	s.finished += c.Finished
	switch {
	case !s.want.hideUsage:
		return show, nil
	case c.UsageOnly():
		s.events--
		s.fingerprint = bytes.Clone(c.Fingerprint.Text(e.Data))
		return hide, nil
	case c.Finished > 0 && s.finished >= s.want.n && !c.Fingerprint.Present():
		return hold, nil
	}
	return show, nil
}

// Cached is the worker's own count of cached prompt tokens, where it means something.
func (s *Stream) Cached() (int64, bool) {
	return s.usage.CachedTokens, s.hasUsage && s.usage.HasCached && s.want.single
}

// close lets go of the connection: back to the pool when the body is at its end, which often comes a moment after
// [DONE] and is then waited for aside.
func (s *Stream) close(d *Dispatcher) {
	if s.detached {
		return
	}
	s.detached = true
	s.pool.put(s.lent)
	s.buf = nil
	if s.done && !s.resp.Ended() && s.resp.Detach() {
		d.drains.drain(s.resp)
		return
	}
	s.resp.Close()
}
