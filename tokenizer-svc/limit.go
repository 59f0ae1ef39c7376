package tokenizersvc

import (
	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
)

// checkIDs refuses the first id that the model cannot have, as vLLM does.
func checkIDs(m *model.Model, ids []uint32) error {
	limit := m.IDLimit()
	for _, id := range ids {
		if id >= limit {
			return fault.New(faultv1.Reason_REASON_INVALID_REQUEST,
				"token id %d is out of range: the model has %d ids", id, limit).WithParam("token_ids")
		}
	}
	return nil
}
