package operation

import (
	"container/list"
	"net/http"
	"net/url"
	"strings"
	"sync"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
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
	id := responseID(a)
	if id == "" || !a.OK() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.where[id]; !ok {
		s.order.PushBack(id)
	}
	s.where[id] = a.Lease.Route
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

// atMaker calls the worker that made a response; where that is not known, every worker until one has an answer.
func (s *Service) atMaker(t *task, method, id, suffix string) (*dispatch.Answer, error) {
	path := responsesPath + "/" + url.PathEscape(id) + suffix
	j := s.newJob(t, method, path, fleet.Model{}, noPrompt())
	if query := t.in.PlainQuery(); query != "" {
		j.Path += "?" + query
		j.Stream = wantsEvents(query)
	}
	if r := s.stored.find(id); r != nil {
		a, err := s.deps.Dispatcher.Direct(t.ctx, j, r)
		if err == nil && a.Status == http.StatusNotFound {
			a.Close(s.deps.Dispatcher, nil)
			return nil, notFound(id)
		}
		return a, err
	}
	return s.atSome(t, id, j)
}

// wantsEvents tells whether a query asks for a stream, in the words that vLLM's framework takes for true.
func wantsEvents(query string) bool {
	values, _ := url.ParseQuery(query)
	switch strings.ToLower(values.Get("stream")) {
	case "true", "1", "yes", "on", "t", "y":
		return true
	}
	return false
}

// atSome makes a call to one worker after the other until one does not refuse it. Without any, a refusal that says more
// than that the id is unknown counts; then a worker that could not be asked, since the response may be there.
func (s *Service) atSome(t *task, id string, j *dispatch.Job) (answer *dispatch.Answer, err error) {
	view, err := s.deps.Scheduler.ListWorkers(t.ctx, &schedulerv1.ListWorkersRequest{})
	if err != nil {
		return nil, fault.From(err)
	}
	missing := notFound(id)
	if len(view.GetWorkers()) == 0 {
		missing = fleet.NoWorker()
	}
	var refused *dispatch.Answer
	for _, w := range view.GetWorkers() {
		if w.GetRank() > 0 {
			continue
		}
		a, err := s.deps.Dispatcher.Direct(t.ctx, j, &schedulerv1.RouteResponse{
			HttpUrl: w.GetCard().GetHttpUrl(), Target: &schedulerv1.Target{WorkerId: w.GetCard().GetWorkerId()},
		})
		switch {
		case t.ctx.Err() != nil:
			return a, err
		case err != nil:
			missing = err
		case a.OK():
			return a, nil
		case a.Status == http.StatusNotFound || refused != nil:
			a.Close(s.deps.Dispatcher, nil)
		default:
			refused = a
		}
	}
	if refused != nil {
		return refused, nil
	}
	return nil, missing
}

// maker is the worker that made a response which a request goes on from; nil without an id, and where nobody has it. After a
// restart, or behind another gateway, it is found by asking.
func (s *Service) maker(t *task, id string) *schedulerv1.RouteResponse {
	if id == "" || len(id) > maxResponseID {
		return nil
	}
	if r := s.stored.find(id); r != nil {
		return r
	}
	a, err := s.atSome(t, id, s.newJob(t, http.MethodGet, responsesPath+"/"+url.PathEscape(id), fleet.Model{}, noPrompt()))
	if err != nil {
		return nil
	}
	defer a.Close(s.deps.Dispatcher, nil)
	if !a.OK() {
		return nil
	}
	return a.Lease.Route
}

// maxResponseID bounds an id that workers are asked for, in bytes; vLLM's have 37.
const maxResponseID = 256

func notFound(id string) error {
	return fault.New(faultv1.Reason_REASON_NOT_FOUND, "Response with id '%.256s' not found.", id).WithParam("response_id")
}
