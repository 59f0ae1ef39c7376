// Package textlimit bounds what an engine is asked for, since it cannot be stopped.
package textlimit

import (
	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// Defaults, in bytes. 1 MiB of prose takes the reference engine 0.5 s, of digits up to 5 s; 256 KiB of spaces take
// either engine up to 0.4 s.
const (
	DefaultText          = 8 << 20
	DefaultReferenceText = 1 << 20
	DefaultRun           = 256 << 10
)

// Limits are in bytes.
type Limits struct {
	Text          int // of one text for the fast engine
	ReferenceText int // of one text for the reference engine, if less than Text
	Run           int // of a run of letters, spaces or marks without a break
}

// Default gives the default of every limit.
func Default() Limits {
	return Limits{Text: DefaultText, ReferenceText: DefaultReferenceText, Run: DefaultRun}
}

// Check refuses a text that passes a limit, with TOO_LARGE; fast names the engine that would take it.
func (l Limits) Check(text []byte, fast bool) error {
	limit := l.Text
	if !fast {
		limit = min(limit, l.ReferenceText)
	}
	if len(text) > limit {
		return fault.New(faultv1.Reason_REASON_TOO_LARGE, "the text has %d bytes, more than the limit of %d",
			len(text), limit).WithParam("text")
	}
	if len(text) > l.Run {
		if run := longestRun(text); run > l.Run {
			return fault.New(faultv1.Reason_REASON_TOO_LARGE,
				"the text has a run of %d bytes of one kind (letters, spaces, marks), more than the limit of %d",
				run, l.Run).WithParam("text")
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
