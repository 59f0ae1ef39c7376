package operation

import (
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/dispatch"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
	"github.com/kvmesh/kvmesh/gateway/internal/prompt"
	"github.com/kvmesh/kvmesh/gateway/internal/reply"
)

func noPrompt() *prompt.Prompt {
	return &prompt.Prompt{Certainty: schedulerv1.Certainty_CERTAINTY_FALLBACK, Reason: prompt.ReasonOperation}
}

// GetReceipt shows why a request went where it went.
func (s *Service) GetReceipt(q *gatewayv1.GetReceiptRequest, st gatewayv1.MeshService_GetReceiptServer) error {
	return s.serve(st, "get_receipt", func(t *task) (*dispatch.Answer, error) {
		resp, err := s.deps.Scheduler.GetReceipt(t.ctx, &schedulerv1.GetReceiptRequest{RequestId: q.GetRequestId()})
		if err != nil {
			return nil, fault.From(err)
		}
		return nil, document(t, resp)
	})
}

// ListWorkers shows the fleet.
func (s *Service) ListWorkers(_ *gatewayv1.ListWorkersRequest, st gatewayv1.MeshService_ListWorkersServer) error {
	return s.serve(st, "list_workers", func(t *task) (*dispatch.Answer, error) {
		resp, err := s.deps.Scheduler.ListWorkers(t.ctx, &schedulerv1.ListWorkersRequest{})
		if err != nil {
			return nil, fault.From(err)
		}
		return nil, document(t, resp)
	})
}

// Explain tells where a chat or a completion would go.
func (s *Service) Explain(q *gatewayv1.JSONRequest, st gatewayv1.MeshService_ExplainServer) error {
	return s.serve(st, "explain", func(t *task) (*dispatch.Answer, error) {
		raw, err := openai.JSON(q)
		if err != nil {
			return nil, err
		}
		k := kind{path: chatPath, shape: openai.ShapeChat, generates: true}
		if openai.HasMember(raw, "prompt") {
			k = kind{path: completionPath, shape: openai.ShapeCompletion, generates: true}
		}
		r, err := s.scan(k.shape, raw)
		if err != nil {
			return nil, err
		}
		if r.Prompts() > 1 {
			return nil, fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "'prompt' must be one prompt here.").WithParam("prompt")
		}
		if r.Prompt.Many {
			r = r.Single(0)
		}
		m, err := s.model(t, r.Model)
		if err != nil {
			return nil, err
		}
		j, err := s.job(t, k, r, m, -1)
		if err != nil {
			return nil, err
		}
		resp, err := s.deps.Scheduler.ExplainRoute(t.ctx, &schedulerv1.ExplainRouteRequest{Request: j.RouteRequest()})
		if err != nil {
			return nil, fault.From(err)
		}
		return nil, document(t, resp)
	})
}

// document answers with a message in proto's JSON form.
func document(t *task, m proto.Message) error {
	b, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return fault.Wrap(faultv1.Reason_REASON_INTERNAL, err, "encode document")
	}
	return reply.OK(t.w, b)
}
