package operation

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/dispatch"
	"github.com/kvmesh/kvmesh/gateway/internal/fleet"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
	"github.com/kvmesh/kvmesh/gateway/internal/reply"
	"github.com/kvmesh/kvmesh/gateway/internal/sse"
	"github.com/kvmesh/kvmesh/gateway/internal/wire"
)

// many answers a request with several prompts: each prompt is a call of its own, at the worker that holds its prefix, at
// most Config.Fanout of them at once. The first failure cancels the rest.
func (s *Service) many(t *task, k kind, q *openai.Request, m fleet.Model) error {
	if q.Shape == openai.ShapeChatBatch && q.Stream {
		return fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "A batch does not stream.").WithParam("stream")
	}
	if most := maxBeside * s.cfg.MaxBodyBytes; most > 0 && int64(q.Beside())*int64(q.Prompts()) > most {
		return fault.New(faultv1.Reason_REASON_INVALID_REQUEST,
			"What stands beside the list goes to a worker with each of its %d prompts, which is more than %d bytes together.",
			q.Prompts(), most)
	}
	b := &batch{s: s, t: t, kind: k, q: q, model: m, docs: make([][]byte, q.Prompts())}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	b.cancel = cancel
	each := *t
	each.ctx = ctx
	b.run(&each)
	if b.refused != nil {
		return b.sendRefusal(t)
	}
	if b.err != nil {
		return b.err
	}
	if q.Stream {
		return b.finish(t)
	}
	body, ok := openai.Merge(b.docs, q.N)
	if !ok {
		return fault.New(faultv1.Reason_REASON_WORKER_FAILED, "A worker's answer could not be merged.")
	}
	return reply.OK(t.w, body, b.header...)
}

// maxBeside bounds what the calls of one request repeat, in bodies of the largest size: without it one body of some MB makes
// hundreds of GB for the workers.
const maxBeside = 64

// batch is one such request. mu guards what the prompts' goroutines share.
type batch struct {
	s      *Service
	t      *task
	kind   kind
	q      *openai.Request
	model  fleet.Model
	cancel context.CancelFunc
	docs   [][]byte

	mu      sync.Mutex
	err     error
	refused *dispatch.Answer
	header  []wire.Field
	started bool
	id      []byte   // the id of all chunks, as JSON
	usages  [][]byte // of the prompts that are done
	sample  []byte   // a usage chunk, the frame of the summed one
}

// run works through the prompts in order with a bounded number of goroutines.
func (b *batch) run(t *task) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(b.s.cfg.Fanout, len(b.docs)) {
		wg.Go(func() {
			for i := range next {
				if err := b.prompt(t, i); err != nil {
					b.fail(err)
				}
			}
		})
	}
	for i := range b.docs {
		select {
		case next <- i:
			continue
		case <-t.ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	if b.err == nil && b.refused == nil && t.ctx.Err() != nil {
		b.err = fault.From(t.ctx.Err())
	}
}

// fail keeps the first failure and stops the others.
func (b *batch) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && b.refused == nil {
		b.err = err
	}
	b.cancel()
}

// prompt answers the i-th prompt.
func (b *batch) prompt(t *task, i int) (err error) {
	if err := t.ctx.Err(); err != nil {
		return fault.From(err)
	}
	one := b.q.Single(i)
	p, err := b.s.deps.Preparer.Prepare(t.ctx, one, b.model)
	if err != nil {
		return err
	}
	j := b.s.newJob(t, http.MethodPost, b.kind.path, b.model, p)
	j.Query, j.Item = b.q, i
	j.Stream, j.HideUsage, j.Generates = b.q.Stream, b.q.CanAskUsage(), true
	a, err := b.s.deps.Dispatcher.Open(t.ctx, j)
	if err != nil {
		return err
	}
	defer func() {
		a.Close(b.s.deps.Dispatcher, err)
		b.t.in.Record.Add(a.Counts())
	}()
	if !a.OK() {
		b.refuse(a)
		return nil
	}
	switch {
	case a.Stream != nil:
		return b.stream(a, i)
	case b.q.Stream:
		return fault.New(faultv1.Reason_REASON_WORKER_FAILED, "A worker did not answer with a stream.")
	case a.Coding() == "gzip":
		if err := decode(a); err != nil {
			return err
		}
	}
	b.mu.Lock()
	if i == 0 || b.header == nil {
		b.header = a.Header()
	}
	b.mu.Unlock()
	b.docs[i], err = io.ReadAll(io.LimitReader(a.Reader(), maxDecoded))
	return err
}

// refuse keeps the first answer that is an error of a worker.
func (b *batch) refuse(a *dispatch.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && b.refused == nil {
		b.refused = a
	}
	b.cancel()
}

// sendRefusal relays a worker's error as the answer of the whole request, in a stream that has begun as its last event.
func (b *batch) sendRefusal(t *task) error {
	a := b.refused
	if b.started {
		if _, ok := openai.ReadChunk(a.Body); !ok || a.More {
			return fault.New(faultv1.Reason_REASON_STREAM_BROKEN, "A worker refused one of the prompts.")
		}
		t.in.Record.Reason = "stream_broken"
		return t.w.Data(asEvent(a.Body))
	}
	h := &reply.Head{Status: a.Status, ContentType: a.ContentType, Length: int64(len(a.Body)), Header: a.Header()}
	if err := t.w.Head(h); err != nil {
		return err
	}
	return t.w.Data(a.Body)
}

// stream relays one prompt's events among the others'.
func (b *batch) stream(a *dispatch.Answer, i int) error {
	if err := b.events(a, a.Stream.First(), i); err != nil {
		return err
	}
	a.Lease.Progress()
	for {
		events, err := a.Stream.Next()
		if len(events) > 0 {
			if err := b.events(a, events, i); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || dispatch.Unmarked(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// events rewrites ids and indices and sends. The usage chunk is kept for the sum.
func (b *batch) events(a *dispatch.Answer, events []byte, prompt int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin(a); err != nil {
		return err
	}
	out := make([]byte, 0, len(events)+64)
	eachEvent(events, func(e sse.Event, _ []byte) {
		if e.Data != nil && !e.IsDone() {
			out = b.event(out, e.Data, prompt)
		}
	})
	if len(out) == 0 {
		return nil
	}
	return b.t.w.Data(out)
}

// event appends one event to out.
func (b *batch) event(out, data []byte, prompt int) []byte {
	c, ok := openai.ReadChunk(data)
	if ok {
		if b.id == nil && len(c.ID.Text(data)) > 0 {
			b.id = append(b.id, c.ID.Text(data)...)
		}
		data = openai.Renumber(data, &c, prompt*b.q.N, b.id)
		if c.UsageOnly() {
			b.usages = append(b.usages, usageOf(data))
			b.sample = append(b.sample[:0], data...)
			return out
		}
	}
	out = append(out, "data: "...)
	out = append(out, data...)
	return append(out, "\n\n"...)
}

func usageOf(data []byte) []byte {
	c, _ := openai.ReadChunk(data)
	return append([]byte(nil), c.UsageValue.Text(data)...)
}

// begin sends the head with the first event of any prompt.
func (b *batch) begin(a *dispatch.Answer) error {
	if b.started {
		return nil
	}
	b.started = true
	return b.t.w.Head(&reply.Head{Status: a.Status, ContentType: a.ContentType, Length: -1, Header: a.Header()})
}

// finish sends the summed usage, where the client asked for it, and the end.
func (b *batch) finish(t *task) error {
	var out []byte
	if c, ok := openai.ReadChunk(b.sample); ok && b.q.IncludeUsage && len(b.usages) > 0 {
		out = append(out, "data: "...)
		out = append(out, openai.WithUsage(b.sample, &c, openai.SumUsage(b.usages))...)
		out = append(out, "\n\n"...)
	}
	return t.w.Data(append(out, doneEvent...))
}
