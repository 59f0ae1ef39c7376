package fakevllm_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/capture"
)

func TestCapturedScaleOutRequestsGetTheirShapes(t *testing.T) {
	t.Parallel()
	cfg := captured()
	cfg.MaxModelLen, cfg.NumGPUBlocks, cfg.ScaleOut, cfg.APIKeys = 1024, 40, true, []string{"sk-test"}
	cfg.MaxNumQueuedReqs, cfg.SchedulingPolicy, cfg.KVEvents.Topic = 6, "priority", "kv@worker-1"
	cfg.LoRAs = cfg.LoRAs[:1]
	_, url := start(t, cfg)
	const later = "the simulated worker has no such route"
	skip := map[string]string{
		"no key /server_info?config_format=json": "a few of some hundred keys are served",
		"no key /metrics":                        "compared by names in TestMetricsNamesAndLabels",
		"GET /tokenizer_info":                    "its answer is cut in the capture; see TestTokenizerInfo",
		"render responses":                       later,
		"render messages":                        later,
		"derender chat":                          later,
		"derender chat (request and response)":   later,
		"inference abort_requests":               later,
	}
	compared := 0
	for _, line := range capture.Read(t, "http-scale-out.jsonl") {
		if skip[line.Name] != "" || line.HTTP.Cut {
			delete(skip, line.Name)
			continue
		}
		compared++
		t.Run(line.Name, func(t *testing.T) { compareCase(t, url, line.HTTP) })
	}
	require.Empty(t, skip, "excluded cases that no capture has")
	t.Logf("%d cases compared", compared)
	require.Greater(t, compared, 30)
}

func TestBodiesThatAreNoText(t *testing.T) {
	t.Parallel()
	cfg := captured()
	cfg.MaxBodyBytes = 1000
	_, url := start(t, cfg)
	for _, row := range []struct {
		name, body, want string
		status           int
	}{
		{
			name: "bytes that are no UTF-8", body: "{\"model\":\"tiny-qwen3\",\"prompt\":\"\xff\xfe\",\"max_tokens\":1}",
			status: http.StatusBadRequest, want: `{"detail":"There was an error parsing the body"}`,
		},
		{
			name: "more than the bound", body: `{"prompt":"` + strings.Repeat("x", 1000) + `"}`,
			status: http.StatusRequestEntityTooLarge, want: `{"detail":"Request Entity Too Large"}`,
		},
		{
			name: "deep nesting", body: strings.Repeat("[", 600), status: http.StatusBadRequest,
			want: `{"error":{"message":"1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.501', 'msg': 'JSON decode ` +
				`error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}}","type":"Bad Request",` +
				`"param":"body.501","code":400}}`,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			res, body := post(t, url+"/v1/completions", row.body)
			require.Equal(t, row.status, res.StatusCode)
			require.Equal(t, row.want, body)
		})
	}
}
