package doctor_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
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

// untold is a worker that does not tell where it publishes, as vLLM before 0.30, and its sockets.
func untold(t *testing.T) (url, live, replay string) {
	t.Helper()
	worker, err := fakevllm.New(fakevllm.Config{Instant: true, KVEvents: fakevllm.KVEvents{
		Enable: true, Endpoint: "tcp://*:0", ReplayEndpoint: "tcp://*:0", Topic: "kv@old",
	}}, fakevllm.Deps{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	back, err := neturl.Parse("http://" + worker.Addr())
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(back)
	proxy.Transport = &http.Transport{DisableKeepAlives: true}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/kv_event_sources" {
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	live, replay = worker.EventEndpoints(0)
	return front.URL, strings.Replace(live, "*", "127.0.0.1", 1), strings.Replace(replay, "*", "127.0.0.1", 1)
}

// TestFlags: a wrong flag is called that, and not a fault of the worker's.
func TestFlags(t *testing.T) {
	t.Parallel()
	url, live, replay := untold(t)
	compute(t, url, 1)
	told := start(t, fakevllm.Config{KVEvents: fakevllm.KVEvents{
		Enable: true, Endpoint: "tcp://*:0", ReplayEndpoint: "tcp://*:0", Topic: "kv@new",
	}})
	const closed = "tcp://127.0.0.1:1"
	rows := []struct {
		name         string
		target       doctor.Target
		level        doctor.Level
		text, change string
	}{
		{"none", doctor.Target{URL: url}, doctor.Fail, "does not tell", "give --endpoint"},
		{"right", doctor.Target{URL: url, Endpoint: live, Replay: replay}, doctor.OK, "", ""},
		{"no replay", doctor.Target{URL: url, Endpoint: live}, doctor.Warn, "no replay", "give --replay"},
		{"nobody at the endpoint", doctor.Target{URL: url, Endpoint: closed}, doctor.Fail, "refused", "compare --endpoint"},
		{"no endpoint", doctor.Target{URL: url, Endpoint: "5557"}, doctor.Fail, "5557", "give --endpoint as"},
		{
			"nobody at the replay",
			doctor.Target{URL: url, Endpoint: live, Replay: closed},
			doctor.Warn, "refused", "compare --replay",
		},
		{"no replay endpoint", doctor.Target{URL: url, Endpoint: live, Replay: "x"}, doctor.Fail, "x", "give --replay as"},
		{"swapped", doctor.Target{URL: url, Endpoint: replay, Replay: live}, doctor.Fail, "ROUTER", "perhaps the replay's"},
		{
			"the publisher twice",
			doctor.Target{URL: url, Endpoint: live, Replay: live},
			doctor.Warn, "PUB", "perhaps the publisher's",
		},
		{"topic", doctor.Target{URL: url, Endpoint: live, Replay: replay, Topic: "kv@"}, doctor.OK, "", ""},
		{
			"wrong topic",
			doctor.Target{URL: url, Endpoint: live, Replay: replay, Topic: "kv@new"},
			doctor.Fail, `"kv@old" does not begin with "kv@new"`, `events.topic to "kv@old"`,
		},
		{"topic told", doctor.Target{URL: told, Topic: "kv@new"}, doctor.OK, "", ""},
		{
			"wrong topic told",
			doctor.Target{URL: told, Topic: "kv@new@1"},
			doctor.Fail, `"kv@new" does not begin with "kv@new@1"`, `events.topic to "kv@new"`,
		},
		{"not used", doctor.Target{URL: told, Endpoint: closed}, doctor.Warn, "not used", "leave them out"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := worst(doctor.Examine(t.Context(), row.target))
			require.Equal(t, row.level, w.Level, "%+v", w)
			require.Contains(t, w.Text, row.text)
			require.Contains(t, w.Change, row.change)
		})
	}
}
