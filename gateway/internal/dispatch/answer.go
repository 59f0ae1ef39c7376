package dispatch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/flight"
	"github.com/kvmesh/kvmesh/gateway/internal/inbound"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
	"github.com/kvmesh/kvmesh/gateway/internal/wire"
)

// Answer is a worker's answer whose head has not gone out yet.
type Answer struct {
	// Status and ContentType are the worker's.
	Status      int
	ContentType string
	// Body is the plain answer, whole unless More.
	Body []byte
	// More tells that Body is only the beginning; Rest reads on.
	More bool
	// Stream is the event stream, nil for plain answers.
	Stream *Stream
	// Lease is the attempt's reservation.
	Lease *Lease
	// Usage is the plain answer's.
	Usage    openai.Usage
	HasUsage bool
	// Attempts is how many workers were asked.
	Attempts int

	want      want
	header    []wire.Field
	length    int64
	resp      *wire.Response
	ctx       context.Context
	retryable bool
	cancel    context.CancelFunc // ends the attempt's own context; nil when it has none
}

// attempt makes one call. An error is a failed attempt, settled already; so is a retryable answer.
func (d *Dispatcher) attempt(ctx context.Context, j *Job, l *Lease, n int) (*Answer, error) {
	if !j.Patient {
		ctx = d.stalls.begin(ctx, l)
	}
	l.watch.turn()
	resp, err := d.client.Do(ctx, &wire.Request{
		Base: l.Route.GetHttpUrl(), Method: j.Method, Path: j.Path, Header: j.fields(l.Route),
		Body: j.body(l.Route, d.cfg.SendIDs),
	})
	l.watch.turn()
	if err != nil {
		d.lost(ctx, l, 0)
		return nil, failed(err)
	}
	a := &Answer{Status: resp.Status(), Lease: l, Attempts: n, want: j.want(), resp: resp, ctx: ctx, length: resp.Length()}
	a.readHeader()
	if a.want.stream && a.Status < 300 && strings.HasPrefix(a.ContentType, "text/event-stream") && !a.encoded() {
		return d.openStream(ctx, a)
	}
	return d.openPlain(ctx, a)
}

// lost settles an attempt that broke off.
func (d *Dispatcher) lost(ctx context.Context, l *Lease, status int) {
	r := Result{Outcome: schedulerv1.Outcome_OUTCOME_FAILED, Status: status}
	if ctx.Err() != nil && !cut(ctx) {
		r.Outcome = endedOutcome
	}
	l.Settle(r)
}

// readHeader keeps the lines that may reach the client.
func (a *Answer) readHeader() {
	h := a.resp.Header()
	a.header = make([]wire.Field, 0, len(h)+8)
	connection := h.Get("connection")
	for _, f := range h {
		if len(f.Name) == len("content-type") && strings.EqualFold(f.Name, "content-type") {
			a.ContentType = f.Value
			continue
		}
		if inbound.Returns(f.Name) && (connection == "" || !inbound.Listed(connection, f.Name)) {
			a.header = append(a.header, f)
		}
	}
}

// encoded tells whether the body has a content coding.
func (a *Answer) encoded() bool {
	e := wire.Header(a.header).Get("content-encoding")
	return e != "" && !strings.EqualFold(e, "identity")
}

// openPlain reads an answer, up to the buffer's size.
func (d *Dispatcher) openPlain(ctx context.Context, a *Answer) (*Answer, error) {
	err := a.fill(d.cfg.BufferBytes)
	if err == nil {
		err = a.judge()
	}
	if err != nil {
		a.resp.Close()
		a.resp = nil
		d.lost(ctx, a.Lease, a.Status)
		return nil, err
	}
	if a.More {
		return a, nil
	}
	a.resp.Close()
	a.resp = nil
	a.Lease.FirstToken()
	if retryableStatus(a.Status) {
		a.retryable = true
		a.Lease.Settle(Result{Outcome: outcomeOf(a.Status), Status: a.Status})
		return a, nil
	}
	// Prompts that kvmesh knows are compared with what the worker had of them, whatever the route.
	if (a.want.generates || a.want.tokens > 0) && a.Status < 300 && !a.encoded() {
		a.Usage, a.HasUsage = openai.FindUsage(a.Body)
	}
	return a, nil
}

// fill reads the body until its end or until limit bytes.
func (a *Answer) fill(limit int) error {
	size := 4096
	if a.length >= 0 {
		size = min(int(a.length), limit) + 1 // one more byte finds the end without another read
	}
	buf := make([]byte, 0, size)
	for {
		if len(buf) == cap(buf) {
			if len(buf) >= limit {
				a.Body, a.More = buf, true
				return nil
			}
			grown := make([]byte, len(buf), min(2*cap(buf), limit+1))
			copy(grown, buf)
			buf = grown
		}
		n, err := a.read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			a.Body = buf
			return nil
		}
		if err != nil {
			return failed(err)
		}
	}
}

// judge refuses what is no answer of an API: an HTML page of something in between, a redirection, which would name the
// worker's address, and a generation that vLLM aborted.
func (a *Answer) judge() error {
	if strings.HasPrefix(a.ContentType, "text/html") || a.Status >= 300 && a.Status < 400 {
		return fault.New(faultv1.Reason_REASON_WORKER_FAILED, "The worker answered with something that is no API reply.")
	}
	if a.want.generates && a.Status < 300 && !a.encoded() && openai.MayAbort(a.Body) {
		if c, ok := openai.ReadChunk(a.Body); ok && c.Aborted {
			return fault.New(faultv1.Reason_REASON_WORKER_FAILED, "The worker aborted the request.")
		}
	}
	return nil
}

// Rest reads on after Body; io.EOF is the proper end.
func (a *Answer) Rest(p []byte) (int, error) { return a.read(p) }

// read waits for the body's next bytes.
func (a *Answer) read(p []byte) (int, error) {
	a.Lease.watch.turn()
	defer a.Lease.watch.turn()
	return a.resp.Read(p)
}

// OK tells whether the worker accepted the request.
func (a *Answer) OK() bool { return a.Status < 400 }

// Header is the lines for the client: the worker's that may pass, and kvmesh's own. It is asked for once.
func (a *Answer) Header() []wire.Field {
	r := a.Lease.Route
	h := wire.Header(a.header)
	a.header = nil
	if a.Stream != nil {
		a.Stream.resp.DropHeader()
	}
	h = append(h,
		wire.Field{Name: "X-Kvmesh-Worker", Value: r.GetTarget().GetWorkerId()},
		wire.Field{Name: "X-Kvmesh-Rank", Value: strconv.FormatUint(uint64(r.GetTarget().GetRank()), 10)},
		wire.Field{Name: "X-Kvmesh-Policy", Value: r.GetPolicy()},
		wire.Field{Name: "X-Kvmesh-Certainty", Value: certaintyWord(r.GetCertainty())},
		wire.Field{Name: "X-Kvmesh-Predicted-Hit-Tokens", Value: strconv.FormatUint(uint64(r.GetPredictedHitTokens()), 10)})
	if a.Status == http.StatusServiceUnavailable && h.Get("retry-after") == "" {
		h = append(h, wire.Field{Name: "Retry-After", Value: "1"})
	}
	if ms := r.GetQueuedMs(); ms > 0 {
		h = append(h, wire.Field{Name: "X-Kvmesh-Queued-Ms", Value: strconv.FormatUint(uint64(ms), 10)})
	}
	if a.HasUsage && a.Usage.HasCached && a.want.single {
		h = append(h, wire.Field{Name: CachedHeader, Value: strconv.FormatInt(a.Usage.CachedTokens, 10)})
	}
	return h
}

// CachedHeader carries the worker's own count of cached prompt tokens: a header of plain answers, a trailer of streams.
const CachedHeader = "X-Kvmesh-Cached-Tokens"

// want is what an answer must know of its job. The job itself, and with it the client's body, is let go when the answer
// is there: a stream may stay open for minutes.
type want struct {
	stream, hideUsage, generates bool
	// single tells that the worker's cached_tokens means something: one prompt, one sequence.
	single bool
	n      int
	tokens uint32
	reason string
}

func (j *Job) want() want {
	w := want{
		stream: j.Stream, hideUsage: j.HideUsage, generates: j.Generates, n: 1, tokens: j.Prompt.Tokens, reason: j.Prompt.Reason,
	}
	if j.Query != nil {
		w.n, w.single = j.Query.N, j.Query.N == 1
	}
	return w
}

// Accepts tells whether the client can take the answer's content coding.
func (a *Answer) Accepts(acceptEncoding string) bool {
	return !a.encoded() || strings.Contains(acceptEncoding, wire.Header(a.header).Get("content-encoding"))
}

// DropEncoding forgets the coding of a body that was decoded.
func (a *Answer) DropEncoding() {
	kept := a.header[:0]
	for _, f := range a.header {
		if !strings.EqualFold(f.Name, "content-encoding") {
			kept = append(kept, f)
		}
	}
	a.header = kept
}

// Coding is the body's content coding, empty for none.
func (a *Answer) Coding() string {
	if !a.encoded() {
		return ""
	}
	return strings.ToLower(wire.Header(a.header).Get("content-encoding"))
}

// Close ends the attempt: it settles what was not settled and lets go of the connection. err is what kept the answer from
// reaching the client whole, nil for none.
func (a *Answer) Close(d *Dispatcher, err error) {
	if a.Stream != nil {
		a.Stream.close(d)
	}
	if a.resp != nil {
		a.resp.Close()
		a.resp = nil
	}
	a.Lease.Settle(a.result(err))
	if a.cancel != nil {
		a.cancel()
	}
}

// result is what the settle says.
func (a *Answer) result(err error) Result {
	r := Result{Outcome: outcomeOf(a.Status), Status: a.Status}
	if s := a.Stream; s != nil {
		a.Usage, a.HasUsage = s.usage, s.hasUsage
		r.OutputTokens = s.events
		if s.failed && r.Outcome == schedulerv1.Outcome_OUTCOME_OK {
			r.Outcome = schedulerv1.Outcome_OUTCOME_FAILED
		}
	}
	if a.HasUsage {
		r.PromptTokens, r.OutputTokens = a.Usage.PromptTokens, a.Usage.OutputTokens
		r.CachedTokens, r.HasCached = a.Usage.CachedTokens, a.Usage.HasCached && a.want.single
	}
	if err != nil && r.Outcome != schedulerv1.Outcome_OUTCOME_FAILED {
		r.Outcome = endedOutcome
		if reason := fault.ReasonOf(err); reason == faultv1.Reason_REASON_STREAM_BROKEN {
			r.Outcome = schedulerv1.Outcome_OUTCOME_FAILED
		}
	}
	return r
}

// Counts is what the attempt adds to the request's record.
func (a *Answer) Counts() flight.Counts {
	r := a.Lease.Route
	c := flight.Counts{
		Worker: r.GetTarget().GetWorkerId(), Rank: r.GetTarget().GetRank(), Policy: r.GetPolicy(),
		Certainty: certaintyWord(r.GetCertainty()), CertaintyReason: a.want.reason, Attempts: a.Attempts,
		PromptTokens: int64(a.want.tokens), PredictedTokens: int64(r.GetPredictedHitTokens()), TTFT: a.Lease.TTFT(),
		Held: time.Duration(r.GetQueuedMs()) * time.Millisecond,
	}
	if a.HasUsage {
		c.OutputTokens = a.Usage.OutputTokens
		if a.Usage.HasCached {
			c.CachedTokens = a.Usage.CachedTokens
		}
	}
	if a.Stream != nil {
		c.Events = a.Stream.events
	}
	return c
}

// Length is the body's length as the worker announced it, -1 for none.
func (a *Answer) Length() int64 { return a.length }

// Reader reads the whole body.
func (a *Answer) Reader() io.Reader {
	if !a.More {
		return bytes.NewReader(a.Body)
	}
	return io.MultiReader(bytes.NewReader(a.Body), rest{a})
}

// rest is an answer's Rest as a reader.
type rest struct{ a *Answer }

func (r rest) Read(p []byte) (int, error) { return r.a.Rest(p) }

// Direct calls one worker without a reservation: for what only that worker can answer.
func (d *Dispatcher) Direct(ctx context.Context, j *Job, r *schedulerv1.RouteResponse) (*Answer, error) {
	l := newLease(ctx, d, r)
	l.unbooked, l.held = true, ""
	a, err := d.attempt(ctx, j, l, 1)
	if err != nil && ctx.Err() != nil {
		return nil, ended(ctx)
	}
	return a, err
}
