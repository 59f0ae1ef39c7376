package tokenizersvc

import (
	"context"

	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hf"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/registry"
)

// ListModels tells each configured model's state.
func (s *Service) ListModels(
	context.Context, *tokenizerv1.ListModelsRequest,
) (*tokenizerv1.ListModelsResponse, error) {
	resp := &tokenizerv1.ListModelsResponse{}
	for _, status := range s.registry.List() {
		resp.Models = append(resp.Models, s.describe(status))
	}
	return resp, nil
}

// describe tells a model's state; the engine and what is proven come from the model itself once it is loaded.
func (s *Service) describe(status registry.Status) *tokenizerv1.TokenizerModel {
	out := &tokenizerv1.TokenizerModel{
		Model: status.Spec.Name, State: protoState(status.State), Detail: status.Detail, Engine: hf.Reference.String(),
	}
	m, err := s.registry.Acquire(status.Spec.Name)
	if err != nil {
		return out
	}
	defer m.Release()
	fast, why := m.Fast()
	if fast {
		out.Engine = hf.Fast.String()
	}
	if m.Remote() {
		out.Engine = "worker"
	}
	out.Detail = why
	out.Vocabulary = uint32(m.Vocabulary())
	out.SegmentCache, _ = m.Segments()
	return out
}

// protoState names the state as the contract does.
func protoState(s registry.State) tokenizerv1.ModelState {
	switch s {
	case registry.Loading:
		return tokenizerv1.ModelState_MODEL_STATE_LOADING
	case registry.Ready:
		return tokenizerv1.ModelState_MODEL_STATE_READY
	case registry.Failed:
		return tokenizerv1.ModelState_MODEL_STATE_FAILED
	case registry.Unsupported:
		return tokenizerv1.ModelState_MODEL_STATE_UNSUPPORTED
	}
	return tokenizerv1.ModelState_MODEL_STATE_UNSPECIFIED
}
