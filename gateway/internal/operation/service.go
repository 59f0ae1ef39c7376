// Package operation implements the gateway's gRPC services. Each operation reads its request once, finds the model,
// waits for a place, prepares the prompt, and relays a worker's answer.
package operation

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/admit"
	"github.com/kvmesh/kvmesh/gateway/internal/dispatch"
	"github.com/kvmesh/kvmesh/gateway/internal/fleet"
	"github.com/kvmesh/kvmesh/gateway/internal/flight"
	"github.com/kvmesh/kvmesh/gateway/internal/inbound"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
	"github.com/kvmesh/kvmesh/gateway/internal/prompt"
	"github.com/kvmesh/kvmesh/gateway/internal/reply"
)

// Config is the operations' part of the gateway's configuration.
type Config struct {
	// MaxBodyBytes bounds a request body, whichever door it takes; 0 does not.
	MaxBodyBytes int64
	// MaxDepth bounds the nesting of request bodies.
	MaxDepth int
	// MaxChoices bounds prompts times n; 0 does not.
	MaxChoices int
	// RequestTimeout bounds every request; 0 does not.
	RequestTimeout time.Duration
	// Keepalive is the pause after which a silent stream gets a comment; 0 sends none.
	Keepalive time.Duration
	// Fanout is how many prompts of one request run at once.
	Fanout int
	// Adapters says which LoRA adapters are loaded on demand.
	Adapters Adapters
	// Continue has another worker take broken streams on where the request allows it.
	Continue bool
	// Forward says which header lines reach workers.
	Forward inbound.Policy
}

// Deps is what the operations stand on.
type Deps struct {
	Log        *slog.Logger
	Clock      func() time.Time
	Keys       *admit.Keys
	Queue      *admit.Queue
	Fleet      *fleet.Fleet
	Preparer   *prompt.Preparer
	Dispatcher *dispatch.Dispatcher
	Scheduler  schedulerv1.SchedulerServiceClient
	Telemetry  *flight.Telemetry
	NewID      func() string
	Tracer     trace.TracerProvider // nil makes no spans
}

// Service is both gRPC services of the gateway.
type Service struct {
	gatewayv1.UnimplementedOpenAIServiceServer
	gatewayv1.UnimplementedMeshServiceServer

	cfg    Config
	deps   Deps
	stored *stored
	loader *loader
}

var (
	_ gatewayv1.OpenAIServiceServer = (*Service)(nil)
	_ gatewayv1.MeshServiceServer   = (*Service)(nil)
)

// New makes the services.
func New(cfg Config, deps Deps) *Service {
	if _, off := deps.Tracer.(noop.TracerProvider); off {
		deps.Tracer = nil
	}
	s := &Service{cfg: cfg, deps: deps, stored: newStored()}
	s.loader = newLoader(s, cfg.Adapters)
	return s
}

// stream is the server side of every operation.
type stream = grpc.ServerStreamingServer[httpbody.HttpBody]

// task is one call of an operation.
type task struct {
	ctx context.Context
	in  *inbound.Call
	w   reply.Writer
	// ends are run, last one first, when the call is over.
	ends []func()
	// resume is what a broken stream is taken on with; nil for streams that are not.
	resume *resume
}

// end runs what was put off.
func (t *task) end() {
	for i := len(t.ends) - 1; i >= 0; i-- {
		t.ends[i]()
	}
	t.ends = nil
}

// serve is the frame of every operation: who calls, until when, and what becomes of a panic. run returns the answer that
// is to be relayed, or nil when it has answered itself.
//
// Behind this process's own REST edge the relay runs after grpc-gateway's frames have returned: an open stream then
// needs half the stack, and neither the request's message nor its body is kept for it.
func (s *Service) serve(st stream, name string, run func(t *task) (*dispatch.Answer, error)) (err error) {
	t := &task{ctx: st.Context(), in: inbound.From(st.Context())}
	if t.in != nil {
		t.ctx, t.w = t.in.Context, t.in.Writer
	} else {
		t.in, t.w = s.direct(t.ctx), reply.Over(st)
		s.deps.Telemetry.Begin()
		defer func() { s.finish(t, err) }()
	}
	t.in.Record.Operation = name
	a, err := s.begin(t, run)
	if err != nil || a == nil {
		t.end()
		return err
	}
	if t.in.Later == nil {
		return s.complete(t, a)
	}
	t.in.Later(func() error { return s.complete(t, a) })
	return nil
}

// begin runs an operation up to its answer.
func (s *Service) begin(t *task, run func(t *task) (*dispatch.Answer, error)) (a *dispatch.Answer, err error) {
	defer s.recovered(t, &err)
	if t.in.Caller == nil {
		if err := s.authenticate(t.in); err != nil {
			return nil, err
		}
	}
	limit, err := t.in.Timeout()
	if err != nil {
		return nil, err
	}
	if d := s.cfg.RequestTimeout; d > 0 && (limit == 0 || d < limit) {
		limit = d
	}
	if limit > 0 {
		ctx, cancel := context.WithTimeout(t.ctx, limit)
		t.ends = append(t.ends, cancel)
		t.ctx = ctx
	}
	s.trace(t)
	return run(t)
}

// trace puts the call into a span of its own, under the client's trace; the worker gets the span as its parent.
func (s *Service) trace(t *task) {
	if s.deps.Tracer == nil {
		return
	}
	var format propagation.TraceContext
	carrier := propagation.HeaderCarrier(t.in.Header)
	ctx, span := s.deps.Tracer.Tracer("kvmesh/gateway").Start(format.Extract(t.ctx, carrier), t.in.Record.Operation,
		trace.WithSpanKind(trace.SpanKindServer))
	format.Inject(ctx, carrier)
	t.ctx = ctx
	t.ends = append(t.ends, func() { span.End() })
}

// complete relays an answer and ends the task.
func (s *Service) complete(t *task, a *dispatch.Answer) (err error) {
	defer t.end()
	defer s.recovered(t, &err)
	return s.relay(t, a)
}

// recovered turns a panic into a fault. net/http's own way to cut a connection passes.
func (s *Service) recovered(t *task, err *error) {
	p := recover()
	if p == nil {
		return
	}
	if e, ok := p.(error); ok && errors.Is(e, http.ErrAbortHandler) {
		panic(p)
	}
	rec := t.in.Record
	s.deps.Log.Error("panic in an operation", "operation", rec.Operation, "panic", p, "request_id", rec.ID,
		"stack", string(debug.Stack()))
	*err = fault.New(faultv1.Reason_REASON_INTERNAL, "panic in %s", rec.Operation)
}

// direct is the frame of a gRPC caller's request.
func (s *Service) direct(ctx context.Context) *inbound.Call {
	in := inbound.FromMetadata(ctx)
	id := in.Get("X-Request-Id")
	if !inbound.PlainID(id) {
		id = s.deps.NewID()
	}
	in.Record = &flight.Record{ID: id, Start: s.deps.Clock(), Status: 200}
	return in
}

func (s *Service) authenticate(in *inbound.Call) error {
	caller, err := s.deps.Keys.Check(in.Get("Authorization"), in.Get("X-Api-Key"))
	if err != nil {
		return err
	}
	in.Caller, in.Record.Tenant = caller, caller.Name
	return caller.Allow(s.deps.Clock())
}

// finish ends the record of a gRPC caller's request.
func (s *Service) finish(t *task, err error) {
	if err != nil {
		f := openai.NewFailure(err)
		t.in.Record.Status, t.in.Record.Reason = f.Status, f.Reason.String()
	}
	s.deps.Telemetry.Done(t.in.Record)
}

// model finds and checks the request's model. A name in the path counts where the body has none.
func (s *Service) model(t *task, name string) (fleet.Model, error) {
	inserted := name == "" && t.in.PathModel != ""
	if inserted {
		name = t.in.PathModel
	}
	m, err := s.deps.Fleet.Resolve(t.ctx, name)
	if err != nil {
		m, err = s.loader.model(t, name, err)
	}
	if err != nil {
		return m, err
	}
	m.Rename = m.Rename || inserted
	t.in.Record.Model = m.ID
	return m, t.in.Caller.MayUse(m.ID)
}

// enter waits for a place; the task's end gives it back.
func (s *Service) enter(t *task, m fleet.Model) error {
	start := time.Now()
	leave, err := s.deps.Queue.Enter(t.ctx, m.Base, m.ReadyWorkers)
	t.in.Record.Queued = time.Since(start)
	if err == nil {
		t.ends = append(t.ends, leave)
	}
	return err
}

// kind is what differs between operations that bring a JSON body to a worker.
type kind struct {
	path      string
	shape     openai.Shape
	generates bool // answers have choices and usage
	stores    bool // answers have an id that later calls name
}

// scan reads a request body. The REST edge has counted it while it came; gRPC callers' messages are counted here.
func (s *Service) scan(shape openai.Shape, raw []byte) (*openai.Request, error) {
	if err := s.fits(raw); err != nil {
		return nil, err
	}
	return openai.Scan(shape, raw, s.cfg.MaxDepth)
}

func (s *Service) fits(raw []byte) error {
	if limit := s.cfg.MaxBodyBytes; limit > 0 && int64(len(raw)) > limit {
		return fault.New(faultv1.Reason_REASON_TOO_LARGE, "The body is larger than the limit of %d bytes.", limit)
	}
	return nil
}

// forward brings an operation with one prompt, or none, to an answer. Requests with many prompts are answered here.
func (s *Service) forward(t *task, k kind, raw []byte) (*dispatch.Answer, error) {
	q, err := s.scan(k.shape, raw)
	if err != nil {
		return nil, err
	}
	t.in.Record.Stream, t.in.Record.BytesIn = q.Stream, len(raw)
	headerLines(t.in, q)
	t.in.Anthropic = t.in.Anthropic || k.shape == openai.ShapeMessages // behind an edge in another process
	m, err := s.model(t, q.Model)
	if err != nil {
		return nil, err
	}
	if s.cfg.MaxChoices > 0 && q.N*q.Prompts() > s.cfg.MaxChoices {
		return nil, fault.New(faultv1.Reason_REASON_INVALID_REQUEST,
			"prompts times 'n' must be at most %d.", s.cfg.MaxChoices).WithParam("n")
	}
	s.keepalive(t, q.Stream)
	if err := s.enter(t, m); err != nil {
		return nil, err
	}
	if q.Shape == openai.ShapeChatBatch || q.Prompt.Many && len(q.Prompt.Items) > 1 {
		return nil, s.many(t, k, q, m)
	}
	item := -1
	if q.Prompt.Many {
		q, item = q.Single(0), -1
	}
	j, err := s.job(t, k, q, m, item)
	if err != nil {
		return nil, err
	}
	if q.PreviousResponse != "" {
		// Only the worker that made a response can continue it; this call is not counted as load. Where that is not known
		// the worker that is asked refuses.
		if r, err := s.maker(t, q.PreviousResponse); err == nil {
			return s.noted(k)(s.deps.Dispatcher.Direct(t.ctx, j, r))
		}
	}
	s.resumable(t, k, q, m)
	return s.open(t, k, j)
}

// headerLines takes what vLLM reads from a request's header lines: a priority that overrides the body's, and a session.
func headerLines(in *inbound.Call, q *openai.Request) {
	if n, err := strconv.ParseInt(in.Get("X-Vllm-Priority"), 10, 32); err == nil {
		q.Priority = int32(n)
	}
	if name := in.Get("X-Session-Id"); name != "" && q.Session == "" {
		q.Session = openai.SessionName(name)
	}
}

// job prepares one prompt.
func (s *Service) job(t *task, k kind, q *openai.Request, m fleet.Model, item int) (*dispatch.Job, error) {
	start := time.Now()
	p, err := s.deps.Preparer.Prepare(t.ctx, q, m)
	if err != nil {
		return nil, err
	}
	j := s.newJob(t, "POST", k.path, m, p)
	j.Query, j.Item = q, item
	j.Stream, j.HideUsage, j.Generates = q.Stream, q.CanAskUsage(), k.generates
	t.in.Record.Prepare = max(t.in.Record.Prepare, time.Since(start))
	return j, nil
}

// newJob is a job with what all jobs of a task share.
func (s *Service) newJob(t *task, method, path string, m fleet.Model, p *prompt.Prompt) *dispatch.Job {
	contentType := "application/json"
	if method == "GET" {
		contentType = ""
	}
	return &dispatch.Job{
		RequestID: t.in.Record.ID, Method: method, Path: path, Item: -1, Model: m, Prompt: p, Tenant: t.in.Record.Tenant,
		Fields: s.cfg.Forward.Outgoing(t.in, contentType),
	}
}

// open finds an answer.
func (s *Service) open(t *task, k kind, j *dispatch.Job) (*dispatch.Answer, error) {
	return s.noted(k)(s.deps.Dispatcher.Open(t.ctx, j))
}

// noted passes an answer on and remembers who made it, where later calls name it.
func (s *Service) noted(k kind) func(a *dispatch.Answer, err error) (*dispatch.Answer, error) {
	return func(a *dispatch.Answer, err error) (*dispatch.Answer, error) {
		if err == nil && k.stores {
			s.stored.note(a)
		}
		return a, err
	}
}

// relay brings an answer to the client and settles it.
func (s *Service) relay(t *task, a *dispatch.Answer) (err error) {
	defer func() {
		a.Close(s.deps.Dispatcher, err)
		t.in.Record.Add(a.Counts())
	}()
	if a.Stream != nil {
		return s.relayStream(t, a)
	}
	if !a.Accepts(t.in.Get("Accept-Encoding")) && a.Coding() == "gzip" {
		if err := decode(a); err != nil {
			return err
		}
	}
	h := &reply.Head{Status: a.Status, ContentType: a.ContentType, Length: int64(len(a.Body)), Header: a.Header()}
	if a.More {
		h.Length = a.Length()
	}
	if err := t.w.Head(h); err != nil {
		return err
	}
	if err := t.w.Data(a.Body); err != nil || !a.More {
		return err
	}
	return relayRest(t, a)
}

// relayRest relays a plain answer that is larger than the buffer.
func relayRest(t *task, a *dispatch.Answer) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := a.Rest(buf)
		if n > 0 {
			if err := t.w.Data(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.Wrap(faultv1.Reason_REASON_STREAM_BROKEN, err, "The worker's answer ended early.")
		}
	}
}

// maxDecoded bounds a decoded body: a few KB of gzip can hold gigabytes.
const maxDecoded = 256 << 20

// decode takes the gzip coding off for a client that did not offer to.
func decode(a *dispatch.Answer) error {
	r, err := gzip.NewReader(a.Reader())
	if err == nil {
		a.Body, err = io.ReadAll(io.LimitReader(r, maxDecoded))
	}
	if err != nil || len(a.Body) == maxDecoded {
		return fault.Wrap(faultv1.Reason_REASON_WORKER_FAILED, err, "The worker's answer could not be decoded.")
	}
	a.More = false
	a.DropEncoding()
	return nil
}

// doneEvent ends a stream of OpenAI's API.
const doneEvent = "data: [DONE]\n\n"

// relayStream relays events as they come, many per write when many came in one read.
func (s *Service) relayStream(t *task, a *dispatch.Answer) error {
	h := &reply.Head{Status: a.Status, ContentType: a.ContentType, Length: -1, Header: a.Header()}
	h.Trailers = []string{dispatch.CachedHeader}
	if t.resume != nil {
		h.Trailers = append(h.Trailers, ContinuedTrailer)
	}
	if err := t.w.Head(h); err != nil {
		return err
	}
	t.resume.note(a.Stream.First())
	if err := t.w.Data(a.Stream.First()); err != nil {
		return err
	}
	a.Lease.Progress()
	for {
		batch, err := a.Stream.Next()
		if len(batch) > 0 {
			t.resume.note(batch)
			if err := t.w.Data(batch); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
			continue
		case dispatch.Unmarked(err):
			return t.w.Data([]byte(doneEvent))
		case !errors.Is(err, io.EOF):
			return s.takeOn(t, a, err)
		}
		if n, ok := a.Stream.Cached(); ok {
			t.w.Trailer(dispatch.CachedHeader, itoa(n))
		}
		return nil
	}
}
