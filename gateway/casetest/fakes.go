package casetest

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

// Scheduler is a small scheduler for runs without one: least requests in flight, ties by order.
type Scheduler struct {
	schedulerv1.SchedulerServiceClient

	fleet *Fleet

	mu       sync.Mutex
	next     uint64
	open     map[uint64]*reservation
	inflight map[string]int
	receipts map[string][]*schedulerv1.Receipt
}

type reservation struct {
	worker  string
	receipt *schedulerv1.Receipt
}

// NewScheduler makes one over a scripted fleet.
func NewScheduler(f *Fleet) *Scheduler {
	return &Scheduler{
		fleet: f, open: map[uint64]*reservation{}, inflight: map[string]int{}, receipts: map[string][]*schedulerv1.Receipt{},
	}
}

func (w *Worker) serves(model string) bool {
	for _, m := range w.Models {
		if m == model {
			return true
		}
	}
	_, ok := w.Loras[model]
	return ok
}

// Route picks a worker and reserves.
func (s *Scheduler) Route(_ context.Context, q *schedulerv1.RouteRequest, _ ...grpc.CallOption) (
	*schedulerv1.RouteResponse, error,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var best *Worker
	candidates := 0
	for _, w := range s.fleet.Workers {
		if w.State == "gone" || !w.serves(q.GetModel()) || excluded(q, w.Name) {
			continue
		}
		candidates++
		if best == nil || s.inflight[w.Name] < s.inflight[best.Name] {
			best = w
		}
	}
	if best == nil {
		return nil, fault.New(faultv1.Reason_REASON_NO_WORKER, "No worker can take the request.").WithRetryAfter(time.Second)
	}
	s.next++
	target := &schedulerv1.Target{WorkerId: best.Name}
	r := &schedulerv1.Receipt{
		RequestId: q.GetRequestId(), Model: q.GetModel(), Attempt: q.GetAttempt(), PromptTokens: q.GetPromptTokens(),
		Units: uint32(len(q.GetUnitHashes())), Policy: "least-inflight", Chosen: target, Certainty: q.GetCertainty(),
		CertaintyReason: q.GetCertaintyReason(), Reason: "least requests in flight",
	}
	s.receipts[q.GetRequestId()] = append(s.receipts[q.GetRequestId()], r)
	s.open[s.next] = &reservation{worker: best.Name, receipt: r}
	s.inflight[best.Name]++
	return &schedulerv1.RouteResponse{
		Reservation: s.next, Target: target, HttpUrl: best.URL, Certainty: q.GetCertainty(), Policy: r.Policy,
		Reason: r.Reason, WorkerVersion: "0.32.0", Candidates: uint32(candidates),
	}, nil
}

func excluded(q *schedulerv1.RouteRequest, worker string) bool {
	for _, t := range q.GetExclude() {
		if t.GetWorkerId() == worker {
			return true
		}
	}
	return false
}

// Progress is taken and forgotten.
func (s *Scheduler) Progress(context.Context, *schedulerv1.ProgressRequest, ...grpc.CallOption) (
	*schedulerv1.ProgressResponse, error,
) {
	return &schedulerv1.ProgressResponse{}, nil
}

// Settle frees a reservation.
func (s *Scheduler) Settle(_ context.Context, q *schedulerv1.SettleRequest, _ ...grpc.CallOption) (
	*schedulerv1.SettleResponse, error,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.open[q.GetReservation()]
	if !ok {
		return &schedulerv1.SettleResponse{}, nil
	}
	delete(s.open, q.GetReservation())
	s.inflight[r.worker]--
	r.receipt.Outcome, r.receipt.OutputTokens, r.receipt.ActualHitTokens = q.GetOutcome(), q.GetOutputTokens(), q.CachedTokens
	return &schedulerv1.SettleResponse{}, nil
}

// ExplainRoute shows a receipt of a choice it does not make.
func (s *Scheduler) ExplainRoute(_ context.Context, q *schedulerv1.ExplainRouteRequest, _ ...grpc.CallOption) (
	*schedulerv1.ExplainRouteResponse, error,
) {
	r := q.GetRequest()
	return &schedulerv1.ExplainRouteResponse{Receipt: &schedulerv1.Receipt{
		Model: r.GetModel(), PromptTokens: r.GetPromptTokens(), Units: uint32(len(r.GetUnitHashes())), Policy: "least-inflight",
		Certainty: r.GetCertainty(), CertaintyReason: r.GetCertaintyReason(),
	}}, nil
}

// GetReceipt shows a request's receipts.
func (s *Scheduler) GetReceipt(_ context.Context, q *schedulerv1.GetReceiptRequest, _ ...grpc.CallOption) (
	*schedulerv1.GetReceiptResponse, error,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rs, ok := s.receipts[q.GetRequestId()]
	if !ok {
		return nil, fault.New(faultv1.Reason_REASON_NOT_FOUND, "There is no receipt of this request.")
	}
	return &schedulerv1.GetReceiptResponse{Receipts: rs}, nil
}

// ListModels is the union over the workers that are not gone, in their order.
func (s *Scheduler) ListModels(context.Context, *schedulerv1.ListModelsRequest, ...grpc.CallOption) (
	*schedulerv1.ListModelsResponse, error,
) {
	out := &schedulerv1.ListModelsResponse{}
	seen := map[string]*schedulerv1.FleetModel{}
	add := func(w *Worker, id, parent string, maxLen int) {
		m := seen[id]
		if m == nil {
			m = &schedulerv1.FleetModel{Id: id, Parent: parent, EntryJson: []byte(entry(id, parent, maxLen))}
			seen[id] = m
			out.Models = append(out.Models, m)
		}
		m.Workers++
		m.ReadyWorkers++
	}
	for _, w := range s.fleet.Workers {
		if w.State == "gone" {
			continue
		}
		for _, m := range w.Models {
			add(w, m, "", 8192)
		}
		for name, base := range w.Loras {
			add(w, name, base, 0)
		}
	}
	return out, nil
}

// ListWorkers is the fleet.
func (s *Scheduler) ListWorkers(context.Context, *schedulerv1.ListWorkersRequest, ...grpc.CallOption) (
	*schedulerv1.ListWorkersResponse, error,
) {
	out := &schedulerv1.ListWorkersResponse{}
	for _, w := range s.fleet.Workers {
		if w.State != "gone" {
			out.Workers = append(out.Workers, &schedulerv1.WorkerView{Card: &workerv1.WorkerCard{WorkerId: w.Name, HttpUrl: w.URL}})
		}
	}
	return out, nil
}

// Inflight is how many reservations are open.
func (s *Scheduler) Inflight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// delayed waits, or fails when ctx ends first.
func delayed(ctx context.Context, ms int) error {
	if ms == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
}

// template renders nothing: it prints the messages' source, which is enough to be hashed.
type template struct {
	templatev1.TemplateServiceClient
	setup Setup
}

func (t template) Render(ctx context.Context, q *templatev1.RenderRequest, _ ...grpc.CallOption) (
	*templatev1.RenderResponse, error,
) {
	if err := delayed(ctx, t.setup.TemplateDelayMS); err != nil {
		return nil, err
	}
	if t.setup.TemplateDown {
		return nil, fault.New(faultv1.Reason_REASON_UNAVAILABLE, "The template service is down.")
	}
	if strings.Contains(t.setup.ChatTemplate, "raise_exception") {
		return nil, fault.New(faultv1.Reason_REASON_TEMPLATE_FAILED, "The template raised an error.")
	}
	return &templatev1.RenderResponse{Text: append([]byte(nil), q.GetMessagesJson()...), TemplateName: "default"}, nil
}

// tokenizer makes a token of each byte.
type tokenizer struct {
	tokenizerv1.TokenizerServiceClient
	setup Setup
}

func (t tokenizer) Encode(ctx context.Context, q *tokenizerv1.EncodeRequest, _ ...grpc.CallOption) (
	*tokenizerv1.EncodeResponse, error,
) {
	if err := delayed(ctx, t.setup.TokenizerDelayMS); err != nil {
		return nil, err
	}
	if t.setup.TokenizerDown {
		return nil, fault.New(faultv1.Reason_REASON_UNAVAILABLE, "The tokenizer service is down.")
	}
	ids := make([]uint32, len(q.GetText()))
	for i, c := range q.GetText() {
		ids[i] = uint32(c)
	}
	root := kvblock.Namespace{Model: q.GetModel(), LoRA: q.GetSalting().GetLoraName()}.Root()
	return &tokenizerv1.EncodeResponse{
		TokenCount: uint32(len(ids)), UnitTokens: kvblock.UnitTokens,
		UnitHashes: kvblock.AppendUnits(nil, root, ids, q.GetSalting().GetCacheSalt()),
	}, nil
}
