package fakevllm_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// TestTokenizerInfo: the route tells a file's configuration, with special tokens as text, and is not there without one.
func TestTokenizerInfo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokenizer_config.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"chat_template":"T","eos_token":{"content":"</s>"},"bos_token":null}`), 0o600))
	rows := []struct {
		name, file, want string
		status           int
	}{
		{"told", path, `{"tokenizer_class":"PreTrainedTokenizerFast","chat_template":"T","eos_token":"</s>","bos_token":null}`, http.StatusOK},
		{"not told", "", `{"detail":"Not Found"}`, http.StatusNotFound},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			cfg := captured()
			cfg.TokenizerInfo = row.file
			_, url := start(t, cfg)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/tokenizer_info", http.NoBody)
			require.NoError(t, err)
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, row.status, resp.StatusCode)
			require.JSONEq(t, row.want, string(body))
		})
	}
	for _, bad := range []string{filepath.Join(t.TempDir(), "nowhere"), "tokenizerinfo_test.go"} {
		cfg := captured()
		cfg.TokenizerInfo = bad
		s, err := fakevllm.New(cfg, fakevllm.Deps{})
		if err == nil {
			err = s.Run(t.Context())
		}
		require.ErrorContains(t, err, "tokenizer_info")
	}
}
