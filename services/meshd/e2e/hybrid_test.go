package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/meshd/mesh"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// TestHybridModel runs conversations at workers of a hybrid model. Turns find the end of the turn before; a fork of a
// conversation shares a long prefix and finds nothing; each prediction is exact and right.
func TestHybridModel(t *testing.T) {
	s := startTuned(t, func(cfg *mesh.Config) {
		for i := range cfg.Mesh.Simulated {
			cfg.Mesh.Simulated[i].Hybrid = fakevllm.Hybrid{SlidingGroups: 2, WindowTokens: 64}
			cfg.Mesh.Simulated[i].NumGPUBlocks = 4096
		}
	})
	c := newCaller(s.URL(t))
	t.Cleanup(c.http.CloseIdleConnections)
	prime(t, c, s)
	grown, forked := 0, 0
	for talk := range 6 {
		turns := conversation(fmt.Sprintf("hybrid %d", talk))
		for turn := range 4 {
			got, err := ask(t.Context(), c, turns, turn%2 == 1)
			require.NoError(t, err)
			require.Equal(t, whole, got.ending)
			require.Equal(t, "exact", got.certainty)
			require.Equal(t, got.cached, got.predicted, "talk %d turn %d", talk, turn)
			grown += got.cached
			fork := append(append([]message(nil), turns[:len(turns)-1]...), message{"user", "Or something else?"})
			aside, err := ask(t.Context(), c, fork, false)
			require.NoError(t, err)
			require.Equal(t, aside.cached, aside.predicted, "fork of talk %d at turn %d", talk, turn)
			if turn == 0 {
				forked += aside.cached
			}
			turns = append(turns, got.reply, message{"user", fmt.Sprintf("And part %d?", turn)})
		}
	}
	t.Logf("%d tokens hit at the ends of earlier prompts, %d by forks of first turns", grown, forked)
	require.Positive(t, grown)
	require.Zero(t, forked, "a shorter prefix of a cached prompt hits nothing")
}

// prime lets every worker compute one prompt: until its first events nobody knows that its model is hybrid.
func prime(t *testing.T, c *caller, s *one) {
	t.Helper()
	for i := range workerCount {
		at := newCaller(s.WorkerURL(t, i))
		at.mustPost(t, "/v1/completions", map[string]any{
			"model": model, "prompt": []string{"A prompt of more than one block, so that an event is published: " +
				"one two three four five six seven eight nine ten eleven twelve thirteen"}, "max_tokens": 1,
		}, 200)
		at.http.CloseIdleConnections()
	}
	eventually(t, rightLimit, func() error {
		for i := range workerCount {
			index, err := indexOf(t.Context(), c, workerID(i))
			if err != nil {
				return err
			}
			if index.events != "EVENT_STATE_HYBRID" || index.certainty != "CERTAINTY_EXACT" {
				return fmt.Errorf("%s: events %s, certainty %s", workerID(i), index.events, index.certainty)
			}
		}
		return nil
	})
}
