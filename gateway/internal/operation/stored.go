package operation

import (
	"container/list"
	"net/http"
	"net/url"
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

// atMaker calls the worker that made a response; where that is not known, every worker until one knows the id.
func (s *Service) atMaker(t *task, method, id, suffix string) (*dispatch.Answer, error) {
	path := responsesPath + "/" + url.PathEscape(id) + suffix
	if r := s.stored.find(id); r != nil {
		a, err := s.at(t, r, method, path)
		if a == nil && err == nil {
			err = notFound(id)
		}
		return a, err
	}
	view, err := s.deps.Scheduler.ListWorkers(t.ctx, &schedulerv1.ListWorkersRequest{})
	if err != nil {
		return nil, fault.From(err)
	}
	for _, w := range view.GetWorkers() {
		if w.GetRank() > 0 {
			continue
		}
		r := &schedulerv1.RouteResponse{
			HttpUrl: w.GetCard().GetHttpUrl(), Target: &schedulerv1.Target{WorkerId: w.GetCard().GetWorkerId()},
		}
		if a, err := s.at(t, r, method, path); a != nil || t.ctx.Err() != nil {
			return a, err
		}
	}
	return nil, notFound(id)
}

func notFound(id string) error {
	return fault.New(faultv1.Reason_REASON_NOT_FOUND, "Response with id '%s' not found.", id).WithParam("response_id")
}

// at makes one call to one worker, without a route and a reservation. A worker that does not know the path or the id
// gives neither an answer nor an error.
func (s *Service) at(t *task, r *schedulerv1.RouteResponse, method, path string) (*dispatch.Answer, error) {
	j := s.newJob(t, method, path, fleet.Model{}, noPrompt())
	a, err := s.deps.Dispatcher.Direct(t.ctx, j, r)
	if err != nil {
		return nil, err
	}
	if a.Status == http.StatusNotFound {
		a.Close(s.deps.Dispatcher, nil)
		return nil, nil
	}
	return a, nil
}
