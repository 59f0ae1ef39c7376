package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

// TestFurtherNames: a worker that serves its model under several names (--served-model-name a b) has one cache, so a prompt
// that came under one name is predicted and found under another; template and tokenizer need the first name alone. A
// request without a name is no riddle: the names mean one model.
func TestFurtherNames(t *testing.T) {
	const short = "short"
	s := startTuned(t, func(cfg *mesh.Config) {
		for i := range cfg.Mesh.Simulated {
			cfg.Mesh.Simulated[i].Aliases = []string{short, "another"}
		}
	})
	c := newCaller(s.URL(t))
	t.Cleanup(c.http.CloseIdleConnections)
	turns := conversation("names")
	first := c.mustPost(t, "/v1/chat/completions", chat(turns, nil), http.StatusOK)
	for _, name := range []string{short, "", model} {
		eventually(t, 10*time.Second, func() error {
			again := c.mustPost(t, "/v1/chat/completions", chat(turns, map[string]any{"model": name}), http.StatusOK)
			require.Equal(t, "exact", again.header.Get("X-Kvmesh-Certainty"), "%q", name)
			require.Equal(t, first.header.Get("X-Kvmesh-Worker"), again.header.Get("X-Kvmesh-Worker"), "%q", name)
			cached := decode(t, again.body).Usage.Details.CachedTokens
			require.Positive(t, cached)
			if predicted := again.header.Get("X-Kvmesh-Predicted-Hit-Tokens"); predicted != fmt.Sprint(cached) {
				return fmt.Errorf("%q: predicted %s of %d cached tokens", name, predicted, cached)
			}
			return nil
		})
	}
}
