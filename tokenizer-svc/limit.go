package tokenizersvc

import (
	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
)

// checkText bounds what an engine is asked for, since it cannot be stopped.
func (s *Service) checkText(m *model.Model, text []byte) error {
	limit := int(s.cfg.MaxTextBytes)
	if fast, _ := m.Fast(); !fast {
		limit = min(limit, int(s.cfg.MaxReferenceTextBytes))
	}
	if len(text) > limit {
		return fault.New(faultv1.Reason_REASON_TOO_LARGE, "the text has %d bytes, more than the limit of %d",
			len(text), limit).WithParam("text")
	}
	if maxRun := int(s.cfg.MaxRunBytes); len(text) > maxRun {
		if run := longestRun(text); run > maxRun {
			return fault.New(faultv1.Reason_REASON_TOO_LARGE,
				"the text has a run of %d bytes of one kind (letters, spaces, marks), more than the limit of %d",
				run, maxRun).WithParam("text")
		}
	}
	return nil
}

// kindOf sorts bytes as pre-tokenizers do, coarsely: a run of one kind may become one word, whose cost grows faster
// than its length. Digits never do: every known pattern cuts them short or, where it does not, they merge early.
func kindOf(b byte) int {
	switch {
	case b == ' ' || b >= '\t' && b <= '\r':
		return 1
	case b >= 0x80, b|0x20 >= 'a' && b|0x20 <= 'z':
		return 2
	case b >= '0' && b <= '9':
		return 0
	default:
		return 3
	}
}

// longestRun returns the length in bytes of the longest run of one kind.
func longestRun(text []byte) int {
	longest, run, kind := 0, 0, 0
	for _, b := range text {
		if k := kindOf(b); k != kind || k == 0 {
			kind, run = k, 0
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

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
