package schedulersvc

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/fleet"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

// Route chooses a worker and reserves its share of load.
func (s *Service) Route(ctx context.Context, r *schedulerv1.RouteRequest) (*schedulerv1.RouteResponse, error) {
	if err := s.Ready(ctx); err != nil {
		return nil, fault.Wrap(faultv1.Reason_REASON_UNAVAILABLE, err, "scheduler is starting")
	}
	return s.engine.Route(ctx, r)
}

// Progress books the first token of a reservation.
func (s *Service) Progress(_ context.Context, r *schedulerv1.ProgressRequest) (*schedulerv1.ProgressResponse, error) {
	s.engine.Progress(r)
	return &schedulerv1.ProgressResponse{}, nil
}

// Settle ends a reservation; settling again is no error.
func (s *Service) Settle(_ context.Context, r *schedulerv1.SettleRequest) (*schedulerv1.SettleResponse, error) {
	s.engine.Settle(r)
	return &schedulerv1.SettleResponse{}, nil
}

// ExplainRoute decides without booking.
func (s *Service) ExplainRoute(
	_ context.Context, r *schedulerv1.ExplainRouteRequest,
) (*schedulerv1.ExplainRouteResponse, error) {
	if r.GetRequest() == nil {
		return nil, fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "request is missing").WithParam("request")
	}
	receipt, err := s.engine.Explain(r.GetRequest())
	if err != nil {
		return nil, err
	}
	return &schedulerv1.ExplainRouteResponse{Receipt: receipt}, nil
}

// GetReceipt answers with the receipts of a request.
func (s *Service) GetReceipt(
	_ context.Context, r *schedulerv1.GetReceiptRequest,
) (*schedulerv1.GetReceiptResponse, error) {
	receipts := s.receipts.Get(r.GetRequestId())
	if len(receipts) == 0 {
		return nil, fault.New(faultv1.Reason_REASON_NOT_FOUND, "no receipt is kept for this request id")
	}
	return &schedulerv1.GetReceiptResponse{Receipts: receipts}, nil
}

// ListModels is the union of the live workers' models. A gateway that asks renews the lease of what it booked.
func (s *Service) ListModels(
	_ context.Context, r *schedulerv1.ListModelsRequest,
) (*schedulerv1.ListModelsResponse, error) {
	if r.GetGateway() != "" && r.GetLeaseMs() > 0 {
		s.ledger.Alive(s.deps.Now(), r.GetGateway(), time.Duration(r.GetLeaseMs())*time.Millisecond)
	}
	v := s.fleet.View()
	out := &schedulerv1.ListModelsResponse{StalledWorkers: v.Stalled(), RestingWorkers: v.Resting()}
	for _, name := range v.Models() {
		out.Models = append(out.Models, fleetModel(v.Pools[name]))
	}
	return out, nil
}

func fleetModel(p *fleet.Pool) *schedulerv1.FleetModel {
	out := &schedulerv1.FleetModel{Id: p.Model, Parent: p.Parent}
	last := ""
	for _, t := range p.Targets {
		if t.Key.Worker == last { // another rank of the same worker
			continue
		}
		last = t.Key.Worker
		card := t.Card()
		out.Workers++
		if card.GetState() == workerv1.WorkerState_WORKER_STATE_READY {
			out.ReadyWorkers++
		}
		for _, m := range card.GetModels() {
			if m.GetId() == p.Model && out.EntryJson == nil {
				out.EntryJson, out.AliasOf = m.GetEntryJson(), m.GetAliasOf()
			}
		}
	}
	return out
}

// ListWorkers is the fleet, one entry per rank.
func (s *Service) ListWorkers(
	context.Context, *schedulerv1.ListWorkersRequest,
) (*schedulerv1.ListWorkersResponse, error) {
	out := &schedulerv1.ListWorkersResponse{}
	for _, t := range s.fleet.View().Targets {
		out.Workers = append(out.Workers, s.workerView(t))
	}
	return out, nil
}

func (s *Service) workerView(t *fleet.Target) *schedulerv1.WorkerView {
	now := s.deps.Now()
	certainty, _ := t.Certainty(now)
	requests, queued := t.Inflight(now)
	out := &schedulerv1.WorkerView{
		Card: proto.CloneOf(t.Card()), Rank: t.Key.Rank, Certainty: wireCertainty(certainty),
		Inflight: uint32(max(0, requests)), QueuedTokens: uint32(max(0, queued)), Breaker: t.Breaker.State(now).String(),
		WithheldBlocks: uint32(t.Withheld.Blocks()),
	}
	if t.Stream != nil {
		out.Units = uint64(max(0, t.Stream.Units()))
		out.Epoch, out.Seq = t.Stream.Position()
	}
	return out
}

func wireCertainty(c policy.Certainty) schedulerv1.Certainty {
	switch c {
	case policy.Exact:
		return schedulerv1.Certainty_CERTAINTY_EXACT
	case policy.Degraded:
		return schedulerv1.Certainty_CERTAINTY_DEGRADED
	default:
		return schedulerv1.Certainty_CERTAINTY_FALLBACK
	}
}
