package fakevllm_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a worker for the length of the test and returns it with its base URL.
func start(t *testing.T, cfg fakevllm.Config) (*fakevllm.Server, string) {
	t.Helper()
	s, err := fakevllm.New(cfg, fakevllm.Deps{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		http.DefaultClient.CloseIdleConnections()
	})
	return s, "http://" + s.Addr()
}

// post sends a JSON body and returns the answer, whose body is read.
func post(t *testing.T, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	return res, readAll(t, res)
}

func readAll(t *testing.T, res *http.Response) string {
	t.Helper()
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(text)
}

func TestSecondTurnHitsTheCache(t *testing.T) {
	t.Parallel()
	_, url := start(t, fakevllm.Config{Instant: true, BlockSize: 16})
	cached := func(body string) int {
		_, text := post(t, url+"/v1/chat/completions", body)
		var answer struct {
			Usage struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			} `json:"usage"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &answer))
		return answer.Usage.Details.Cached
	}
	first := `{"messages":[{"role":"user","content":"Tell me what a block pool is."}],"max_tokens":8}`
	second := `{"messages":[{"role":"user","content":"Tell me what a block pool is."},` +
		`{"role":"assistant","content":"A pool."},{"role":"user","content":"And a prefix?"}],"max_tokens":8}`
	require.Zero(t, cached(first))
	require.Greater(t, cached(second), 0)
}
