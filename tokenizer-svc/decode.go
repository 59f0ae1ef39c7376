package tokenizersvc

import (
	"context"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/stream"
)

const (
	// maxDecodeIDs bounds one call; the longest context windows have a million tokens.
	maxDecodeIDs = 1 << 20
	// maxStreamIDs bounds one step of a stream, whose cost is two short decodes per id.
	maxStreamIDs = 1 << 12
)

// Decode turns ids into text, whole or as a step of a stream.
func (s *Service) Decode(
	ctx context.Context, req *tokenizerv1.DecodeRequest,
) (*tokenizerv1.DecodeResponse, error) {
	m, err := s.acquire(req.GetModel())
	if err != nil {
		return nil, err
	}
	defer m.Release()
	limit := maxDecodeIDs
	if req.GetState() != nil {
		limit = maxStreamIDs
	}
	if len(req.GetTokenIds()) > limit {
		return nil, fault.New(faultv1.Reason_REASON_TOO_LARGE, "%d ids at once, more than the limit of %d",
			len(req.GetTokenIds()), limit).WithParam("token_ids")
	}
	if err := checkIDs(m, req.GetTokenIds()); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if req.GetState() == nil {
		text, err := m.Decode(nil, req.GetTokenIds(), req.GetSkipSpecialTokens())
		if err != nil {
			return nil, undecodable(m, err)
		}
		return &tokenizerv1.DecodeResponse{Text: text}, nil
	}
	return decodeStep(m, req)
}

// decodeStep takes the request as a step of a stream. With flush the stream ends: what is held back is given out, and
// the state that goes back begins a new one.
func decodeStep(m *model.Model, req *tokenizerv1.DecodeRequest) (*tokenizerv1.DecodeResponse, error) {
	state, err := stateOf(m, req.GetState())
	if err != nil {
		return nil, err
	}
	decode := func(dst []byte, ids []uint32) ([]byte, error) { return m.Decode(dst, ids, req.GetSkipSpecialTokens()) }
	text, next, err := stream.Step(nil, state, req.GetTokenIds(), decode)
	if err == nil && req.GetFlush() {
		text, err = stream.Flush(text, next, decode)
		next = stream.State{}
	}
	if err != nil {
		return nil, undecodable(m, err)
	}
	return &tokenizerv1.DecodeResponse{Text: text, State: &tokenizerv1.DecodeState{
		PendingTokenIds: next.Pending, ReadOffset: uint32(next.Read),
	}}, nil
}

// stateOf reads a stream's state, which comes from the caller and may be anything.
func stateOf(m *model.Model, state *tokenizerv1.DecodeState) (stream.State, error) {
	prefix, read := int(state.GetPrefixOffset()), int(state.GetReadOffset())
	pending := state.GetPendingTokenIds()
	if prefix > read || prefix > len(pending) {
		return stream.State{}, badState()
	}
	out := stream.State{Pending: pending[prefix:], Read: read - prefix}
	if !out.Valid() {
		return stream.State{}, badState()
	}
	return out, checkIDs(m, out.Pending)
}

// badState answers a state that cannot have come from a response.
func badState() error {
	return fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "the decode state is not one that a response gave").
		WithParam("state")
}

// undecodable answers ids that the engine failed on. The cause stays in this process.
func undecodable(m *model.Model, err error) error {
	return fault.Wrap(faultv1.Reason_REASON_TOKENIZER_FAILED, err, "the tokenizer of %q refused the ids", m.Name())
}
