package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

// TestWorkersThatComputeTheLastBlockAgain: with EAGLE or MTP a worker's hits are a block shorter than what it holds, which only
// its cached tokens tell. After some conversations the mesh predicts so, and stays exact.
func TestWorkersThatComputeTheLastBlockAgain(t *testing.T) {
	s := startTuned(t, func(cfg *mesh.Config) {
		for i := range cfg.Mesh.Simulated {
			cfg.Mesh.Simulated[i].DropLastHit = true
		}
	})
	c := newCaller(s.URL(t))
	t.Cleanup(c.http.CloseIdleConnections)
	right, wrong := 0, 0
	for talk := 0; right < 20; talk++ {
		require.Less(t, talk, 60, "%d predictions were right, %d wrong", right, wrong)
		turns := conversation(fmt.Sprintf("speculation %d", talk))
		for range 3 {
			got, err := ask(t.Context(), c, turns, false)
			require.NoError(t, err)
			turns = append(turns, got.reply, message{"user", "And then?"})
			switch {
			case got.cached > 0 && got.predicted == got.cached && got.certainty == "exact":
				right++
			case got.predicted != got.cached:
				right, wrong = 0, wrong+1
			}
		}
	}
	t.Logf("%d predictions were wrong before 20 in a row were right", wrong)
	require.Positive(t, wrong, "the workers differ from others")
}
