package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPromptsThatAreComputedAnew: a worker that is asked for log probabilities of the prompt does not read its cache, and
// keeps what it computes. Predictions say so.
func TestPromptsThatAreComputedAnew(t *testing.T) {
	s := startOne(t)
	c := newCaller(s.URL(t))
	t.Cleanup(c.http.CloseIdleConnections)
	turns := conversation("anew")
	text := map[string]any{"model": model, "prompt": turns[0].Content, "max_tokens": 2}
	for _, row := range []struct {
		path string
		body map[string]any
		anew map[string]any
	}{
		{"/v1/chat/completions", chat(turns, nil), map[string]any{"prompt_logprobs": 1}},
		{"/v1/completions", text, map[string]any{"echo": true, "logprobs": 1}},
		{"/v1/completions", text, map[string]any{"prompt_logprobs": 0}},
	} {
		counts := func(body map[string]any) (predicted, cached int) {
			got := c.mustPost(t, row.path, body, http.StatusOK)
			require.Equal(t, "exact", got.header.Get("X-Kvmesh-Certainty"))
			predicted, err := strconv.Atoi(got.header.Get("X-Kvmesh-Predicted-Hit-Tokens"))
			require.NoError(t, err)
			if details := decode(t, got.body).Usage.Details; details != nil {
				cached = details.CachedTokens
			}
			return predicted, cached
		}
		eventually(t, 10*time.Second, func() error {
			predicted, cached := counts(row.body)
			if cached == 0 || predicted != cached {
				return fmt.Errorf("predicted %d, cached %d", predicted, cached)
			}
			return nil
		})
		anew := maps.Clone(row.body)
		maps.Copy(anew, row.anew)
		predicted, cached := counts(anew)
		require.Zero(t, cached, row.path)
		require.Zero(t, predicted, row.path)
	}
}
