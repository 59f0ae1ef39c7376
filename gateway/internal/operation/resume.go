package operation

import (
	"errors"
	"io"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/dispatch"
	"github.com/kvmesh/kvmesh/gateway/internal/fleet"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
	"github.com/kvmesh/kvmesh/gateway/internal/sse"
)

// ContinuedTrailer names the worker that took a broken stream on.
const ContinuedTrailer = "X-Kvmesh-Continued"

// maxResumeText bounds the text that is kept of a stream; longer ones are not taken on.
const maxResumeText = 1 << 20

// resume is what is kept of a running stream so that another worker can take it on.
type resume struct {
	kind  kind
	query *openai.Request
	model fleet.Model

	text   []byte // what the client has
	tokens int    // events that brought some of it: vLLM sends one per engine step
	id     []byte // the stream's id, as JSON
	lost   bool   // the stream has something that text does not carry on
	failed []*schedulerv1.Target
}

// resumable keeps the beginning of a stream that may be taken on.
func (s *Service) resumable(t *task, k kind, q *openai.Request, m fleet.Model) {
	if s.cfg.Continue && q.Resumable() {
		t.resume = &resume{kind: k, query: q, model: m}
	}
}

// note reads events that go to the client; nil takes none.
func (r *resume) note(events []byte) {
	if r == nil || r.lost {
		return
	}
	eachEvent(events, func(e sse.Event, _ []byte) {
		if e.Data == nil || e.IsDone() {
			return
		}
		if r.id == nil {
			if c, ok := openai.ReadChunk(e.Data); ok {
				r.id = append([]byte{}, c.ID.Text(e.Data)...)
			}
		}
		text, plain := openai.Delta(e.Data)
		r.lost = r.lost || !plain || len(r.text)+len(text) > maxResumeText
		if len(text) > 0 {
			r.text = append(r.text, text...)
			r.tokens++
		}
	})
}

// eachEvent visits whole events with their source.
func eachEvent(events []byte, visit func(e sse.Event, source []byte)) {
	split := sse.NewSplitter()
	for at := 0; at < len(events); {
		end := split.Next(events, at)
		if end < 0 {
			return
		}
		visit(sse.Parse(events[at:end]), events[at:end])
		at = end
	}
}

// takeOn has another worker go on where a stream broke. It returns cause when that cannot be done, so that the client
// gets the error event that it would have got.
func (s *Service) takeOn(t *task, broken *dispatch.Answer, cause error) error {
	r := t.resume
	if r == nil || r.lost || fault.ReasonOf(cause) != faultv1.Reason_REASON_STREAM_BROKEN || t.ctx.Err() != nil {
		return cause
	}
	r.failed = append(r.failed, broken.Lease.Route.GetTarget())
	a, err := s.successor(t, r)
	if err != nil {
		s.deps.Telemetry.Continued("refused")
		return cause
	}
	worker := a.Lease.Route.GetTarget().GetWorkerId()
	err = s.follow(t, r, a)
	a.Close(s.deps.Dispatcher, err)
	t.in.Record.Add(a.Counts())
	if err == nil {
		s.deps.Telemetry.Continued("ok")
		t.w.Trailer(ContinuedTrailer, worker)
		return nil
	}
	s.deps.Telemetry.Continued("broken")
	if len(r.failed) >= maxResumes {
		return err
	}
	return s.takeOn(t, a, err)
}

// maxResumes is how many workers may break one stream before its client hears of it.
const maxResumes = 3

// errRefused is an answer that does not go on.
var errRefused = errors.New("the other worker does not take the stream on")

// successor opens the rest of the stream at another worker.
func (s *Service) successor(t *task, r *resume) (*dispatch.Answer, error) {
	doc, ok := r.query.Continue(r.text, r.tokens)
	if !ok {
		return nil, errRefused
	}
	q, err := openai.Scan(r.query.Shape, doc, s.cfg.MaxDepth)
	if err != nil {
		return nil, err
	}
	j, err := s.job(t, r.kind, q, r.model, -1)
	if err != nil {
		return nil, err
	}
	j.Kind, j.Exclude = schedulerv1.AttemptKind_ATTEMPT_KIND_CONTINUATION, r.failed
	a, err := s.deps.Dispatcher.Open(t.ctx, j)
	if err != nil {
		return nil, err
	}
	if !a.OK() || a.Stream == nil {
		a.Close(s.deps.Dispatcher, nil)
		return nil, errRefused
	}
	return a, nil
}

// follow relays the rest under the stream's own id, behind a comment that names the worker.
func (s *Service) follow(t *task, r *resume, a *dispatch.Answer) error {
	made := int64(r.tokens)
	head := []byte(": kvmesh: continued at worker " + a.Lease.Route.GetTarget().GetWorkerId() + "\n\n")
	if err := t.w.Data(r.rewritten(head, a.Stream.First(), made)); err != nil {
		return err
	}
	a.Lease.Progress()
	for {
		events, err := a.Stream.Next()
		if out := r.rewritten(nil, events, made); len(out) > 0 {
			if err := t.w.Data(out); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case dispatch.Unmarked(err):
			return t.w.Data([]byte(doneEvent))
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

// rewritten appends the client's view of a continuation's events: the first worker's id, no second beginning, and the
// usage of the whole.
func (r *resume) rewritten(out, events []byte, made int64) []byte {
	eachEvent(events, func(e sse.Event, source []byte) {
		c, ok := openai.ReadChunk(e.Data)
		if !ok {
			out = append(out, source...)
			return
		}
		text, plain := openai.Delta(e.Data)
		if plain && len(text) == 0 && c.Usage == nil {
			return
		}
		data := openai.Renumber(e.Data, &c, 0, r.id)
		if c.Usage != nil {
			if again, ok := openai.ReadChunk(data); ok {
				data = openai.WithUsage(data, &again, openai.MovedUsage(*c.Usage, made))
			}
		}
		if c.Finished == 0 && c.Count > 0 {
			r.lost = r.lost || !plain
		}
		if len(text) > 0 {
			r.text, r.tokens = append(r.text, text...), r.tokens+1
		}
		out = append(append(append(out, "data: "...), data...), "\n\n"...)
	})
	return out
}
