package doctor_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"

	"github.com/kvmesh/kvmesh/worker-adapter/doctor"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// start runs a simulated worker for the length of the test.
func start(t *testing.T, cfg fakevllm.Config) string {
	t.Helper()
	cfg.Instant = true
	s, err := fakevllm.New(cfg, fakevllm.Deps{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return "http://" + s.Addr()
}

// compute has a worker compute a prompt of many blocks, whose events have gone out before it answers.
func compute(t *testing.T, url string, number int) {
	t.Helper()
	body := fmt.Sprintf(`{"prompt": [%d%s], "max_tokens": 1}`, number, strings.Repeat(", 7", 399))
	resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	http.DefaultClient.CloseIdleConnections()
}

// worst is the worst finding, by level and subject.
func worst(found []doctor.Finding) doctor.Finding {
	rank := map[doctor.Level]int{doctor.OK: 1, doctor.Warn: 2, doctor.Fail: 3}
	var w doctor.Finding
	for _, f := range found {
		if rank[f.Level] > rank[w.Level] {
			w = f
		}
	}
	return w
}

func TestExamine(t *testing.T) {
	t.Parallel()
	events := fakevllm.KVEvents{Enable: true, Endpoint: "tcp://*:0", ReplayEndpoint: "tcp://*:0"}
	noReplay, off, wrong := events, events, events
	noReplay.ReplayEndpoint = ""
	off.Enable = false
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, deaf.Close()) })
	wrong.Endpoint = "tcp://" + deaf.Addr().String()
	rows := []struct {
		name string
		cfg  fakevllm.Config
		key  string
		// prompts are computed before the worker is examined.
		prompts int
		level   doctor.Level
		text    string
		change  string
	}{
		{name: "well", cfg: fakevllm.Config{KVEvents: events}, level: doctor.OK},
		{name: "two ranks", cfg: fakevllm.Config{KVEvents: events, DataParallelSize: 2}, level: doctor.OK},
		{
			name: "events off", cfg: fakevllm.Config{KVEvents: off},
			level: doctor.Fail, text: "off", change: "--kv-events-config",
		},
		{
			name: "no replay", cfg: fakevllm.Config{KVEvents: noReplay},
			level: doctor.Warn, text: "no replay", change: "replay_endpoint",
		},
		{
			name: "connects", cfg: fakevllm.Config{KVEvents: wrong},
			level: doctor.Fail, text: "instead of binding", change: "tcp://*:5557",
		},
		{
			name: "odd block size", cfg: fakevllm.Config{KVEvents: events, BlockSize: 24},
			level: doctor.Warn, text: "24", change: "--block-size",
		},
		{
			name: "hybrid", cfg: fakevllm.Config{
				KVEvents: events, Hybrid: fakevllm.Hybrid{SlidingGroups: 2, WindowTokens: 64},
			},
			prompts: 1, level: doctor.Warn, text: "3 cache groups", change: "predicts by that rule",
		},
		{
			name: "silent", cfg: fakevllm.Config{KVEvents: events, Faults: fakevllm.Faults{StopEvents: true}},
			prompts: 3, level: doctor.Fail, text: "published nothing", change: "publisher is stuck",
		},
		{name: "not asked yet", cfg: fakevllm.Config{KVEvents: events}, level: doctor.OK},
		{
			name: "no key", cfg: fakevllm.Config{KVEvents: events, APIKeys: []string{"k"}},
			level: doctor.Fail, text: "401", change: "--api-key",
		},
		{name: "key", cfg: fakevllm.Config{KVEvents: events, APIKeys: []string{"k"}}, key: "k", level: doctor.OK},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			url := start(t, row.cfg)
			for i := range row.prompts {
				compute(t, url, i)
			}
			w := worst(doctor.Examine(t.Context(), doctor.Target{URL: url, APIKey: row.key}))
			require.Equal(t, row.level, w.Level, "%+v", w)
			require.Contains(t, w.Text, row.text)
			require.Contains(t, w.Change, row.change)
		})
	}
}

// TestOtherServers: what is no vLLM, or none yet, is told in one finding.
func TestOtherServers(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":[]}`))
	}))
	defer empty.Close()
	for url, text := range map[string]string{
		gone.URL: "refuses", web.URL: "no such route", empty.URL: "no base model", "nonsense": "http://host:port",
	} {
		found := doctor.Examine(t.Context(), doctor.Target{URL: url})
		require.Len(t, found, 1, url)
		require.Equal(t, doctor.Fail, found[0].Level)
		require.Contains(t, found[0].Text, text)
		require.NotEmpty(t, found[0].Change)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	url := start(t, fakevllm.Config{KVEvents: fakevllm.KVEvents{
		Enable: true, Endpoint: "tcp://*:0", ReplayEndpoint: "tcp://*:0",
	}})
	require.NoError(t, (&doctor.Command{Workers: []string{url}, Out: &out}).Run(t.Context()))
	require.Contains(t, out.String(), "generates")
	bad := start(t, fakevllm.Config{})
	require.ErrorIs(t, (&doctor.Command{Workers: []string{bad}, Out: &out}).Run(t.Context()), doctor.ErrUnwell)
	require.Contains(t, out.String(), "change: start vLLM with --kv-events-config")
}
