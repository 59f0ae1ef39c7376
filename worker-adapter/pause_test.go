package workeradapter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

// TestPause: only a step since the pause proves anything, and only after its events must have come.
func TestPause(t *testing.T) {
	t.Parallel()
	start := time.Unix(5000, 0)
	// Each step is seconds since the last one, tokens computed, and whether the pause is found to be over.
	type step struct {
		after  int
		paused bool
		tokens float64
		over   bool
	}
	rows := []struct {
		name  string
		steps []step
	}{
		{"never paused", []step{{1, false, 10, false}, {3, false, 20, false}, {3, false, 30, false}}},
		{"no step since", []step{{1, true, 10, false}, {3, false, 10, false}, {3, false, 10, false}}},
		{"a step, proven later, once", []step{
			{1, true, 10, false}, {1, false, 11, false}, {1, false, 11, false}, {1, false, 11, true}, {3, false, 12, false},
		}},
		{"paused again", []step{{1, true, 10, false}, {1, false, 11, false}, {1, true, 11, false}, {3, false, 11, false}}},
		{"the machine stood still", []step{
			{1, true, 10, false}, {1, false, 11, false}, {9, false, 11, false}, {1, false, 11, false}, {1, false, 11, true},
		}},
		{"another process", []step{{1, true, 10, false}, {1, false, 0, false}, {3, false, 5, false}}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var p pause
			now := start
			for i, s := range row.steps {
				now = now.Add(time.Duration(s.after) * time.Second)
				r := reading{vllm.RankMetrics{OutputTokens: s.tokens}, now, 16}
				if s.paused {
					p.stands(r)
					continue
				}
				require.Equal(t, s.over, p.over(r), "step %d", i)
			}
		})
	}
}
