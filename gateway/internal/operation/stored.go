package operation

import (
	"container/list"
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/dispatch"
	"github.com/kvmesh/kvmesh/gateway/internal/fleet"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
)

const responsesPath = "/v1/responses"

// maxStored bounds the remembered responses; the oldest are forgotten and then looked for at every worker.
const maxStored = 16384

// stored remembers which worker made a response: vLLM keeps responses in the process that made them.
type stored struct {
	mu    sync.Mutex
	order list.List // of string, oldest first
	where map[string]*schedulerv1.RouteResponse
}

func newStored() *stored { return &stored{where: map[string]*schedulerv1.RouteResponse{}} }

// note remembers an answer's id.
func (s *stored) note(a *dispatch.Answer) {
	if id := responseID(a); id != "" && a.OK() {
		s.keep(id, a.Lease.Route)
	}
}

// keep remembers who has a response.
func (s *stored) keep(id string, r *schedulerv1.RouteResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.where[id]; !ok {
		s.order.PushBack(id)
	}
	s.where[id] = r
	for s.order.Len() > maxStored {
		if old, ok := s.order.Remove(s.order.Front()).(string); ok {
			delete(s.where, old)
		}
	}
}

// responseID is the id in a plain answer, or in the first event of a stream.
func responseID(a *dispatch.Answer) string {
	if a.Stream == nil {
		return openai.TextMember(a.Body, "id")
	}
	return openai.FirstResponseID(a.Stream.First())
}

func (s *stored) find(id string) *schedulerv1.RouteResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.where[id]
}

// GetResponse reads a response from the worker that made it.
func (s *Service) GetResponse(q *gatewayv1.GetResponseRequest, st gatewayv1.OpenAIService_GetResponseServer) error {
	return s.serve(st, "get_response", func(t *task) (*dispatch.Answer, error) {
		return s.atMaker(t, "GET", q.GetResponseId(), "")
	})
}

// CancelResponse stops a response at the worker that runs it.
func (s *Service) CancelResponse(q *gatewayv1.CancelResponseRequest, st gatewayv1.OpenAIService_CancelResponseServer) error {
	return s.serve(st, "cancel_response", func(t *task) (*dispatch.Answer, error) {
		return s.atMaker(t, "POST", q.GetResponseId(), "/cancel")
	})
}

// atMaker calls the worker that made a response.
func (s *Service) atMaker(t *task, method, id, suffix string) (*dispatch.Answer, error) {
	j := s.newJob(t, method, responsePath(id)+suffix, fleet.Model{}, noPrompt())
	if query := t.in.PlainQuery(); query != "" {
		j.Path += "?" + query
		j.Stream = wantsEvents(query)
	}
	r := s.stored.find(id)
	if r == nil && !j.Stream {
		return s.search(t, id, j)
	}
	if r == nil {
		var err error
		if r, err = s.maker(t, id); err != nil {
			return nil, err
		}
	}
	a, err := s.deps.Dispatcher.Direct(t.ctx, j, r)
	if err == nil && a.Status == http.StatusNotFound {
		a.Close(s.deps.Dispatcher, nil)
		return nil, notFound(id)
	}
	return a, err
}

func responsePath(id string) string { return responsesPath + "/" + url.PathEscape(id) }

// wantsEvents tells whether a query asks for a stream, in the words that vLLM's framework takes for true.
func wantsEvents(query string) bool {
	values, _ := url.ParseQuery(query)
	switch strings.ToLower(values.Get("stream")) {
	case "true", "1", "yes", "on", "t", "y":
		return true
	}
	return false
}

// maker is the worker that made a response. Faults: those of search.
func (s *Service) maker(t *task, id string) (*schedulerv1.RouteResponse, error) {
	if r := s.stored.find(id); r != nil {
		return r, nil
	}
	a, err := s.search(t, id, s.newJob(t, http.MethodGet, responsePath(id), fleet.Model{}, noPrompt()))
	if err != nil {
		return nil, err
	}
	defer a.Close(s.deps.Dispatcher, nil)
	return a.Lease.Route, nil
}

// search makes a call about a response to one worker after the other until one has it: after a restart, and behind another
// gateway, nobody here knows which. Faults: NOT_FOUND where all say that they do not have it, else that of one that could
// not say.
func (s *Service) search(t *task, id string, j *dispatch.Job) (*dispatch.Answer, error) {
	if id == "" || len(id) > maxResponseID {
		return nil, notFound(id)
	}
	view, err := s.deps.Scheduler.ListWorkers(t.ctx, &schedulerv1.ListWorkersRequest{})
	if err != nil {
		return nil, fault.From(err)
	}
	missing := notFound(id)
	if len(view.GetWorkers()) == 0 {
		missing = fleet.NoWorker()
	}
	for _, w := range view.GetWorkers() {
		if w.GetRank() > 0 {
			continue
		}
		a, err := s.askOne(t, w.GetCard(), j)
		switch {
		case t.ctx.Err() != nil:
			return nil, fault.From(t.ctx.Err())
		case err != nil:
			missing = err
		case a != nil:
			s.stored.keep(id, a.Lease.Route)
			return a, nil
		}
	}
	return nil, missing
}

// askOne makes the call to one worker; neither an answer nor an error is its no. One that cannot answer in time, because it
// stands still or sleeps, must not hold up the search.
func (s *Service) askOne(t *task, c *workerv1.WorkerCard, j *dispatch.Job) (*dispatch.Answer, error) {
	switch c.GetState() {
	case workerv1.WorkerState_WORKER_STATE_SICK, workerv1.WorkerState_WORKER_STATE_ASLEEP:
		return nil, fleet.NoWorker()
	case workerv1.WorkerState_WORKER_STATE_UNSPECIFIED, workerv1.WorkerState_WORKER_STATE_STARTING,
		workerv1.WorkerState_WORKER_STATE_READY, workerv1.WorkerState_WORKER_STATE_DRAINING:
	}
	ctx, cancel := context.WithCancel(t.ctx)
	t.ends = append(t.ends, cancel) // a long answer is read on after this
	late := time.AfterFunc(askTime, cancel)
	defer late.Stop()
	r := &schedulerv1.RouteResponse{HttpUrl: c.GetHttpUrl(), Target: &schedulerv1.Target{WorkerId: c.GetWorkerId()}}
	a, err := s.deps.Dispatcher.Direct(ctx, j, r)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fleet.NoWorker()
	case err != nil:
		return nil, err
	case a.OK():
		return a, nil
	case a.Status >= http.StatusInternalServerError:
		err = fault.New(faultv1.Reason_REASON_WORKER_FAILED, "A worker that may have the response failed.")
	}
	a.Close(s.deps.Dispatcher, nil)
	return nil, err
}

// askTime is how long a worker may take to say whether it has a response, which it looks up in memory.
const askTime = 3 * time.Second

// maxResponseID bounds an id that workers are asked for, in bytes; vLLM's have 37.
const maxResponseID = 256

func notFound(id string) error {
	return fault.New(faultv1.Reason_REASON_NOT_FOUND, "Response with id '%.256s' not found.", id).WithParam("response_id")
}
