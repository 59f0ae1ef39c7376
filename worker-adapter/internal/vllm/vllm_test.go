package vllm_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/capture"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// captured are the bodies that a real vLLM 0.32 answered, by path.
func captured(t *testing.T) map[string]string {
	t.Helper()
	dir, err := capture.Dir()
	require.NoError(t, err)
	f, err := os.Open(filepath.Join(dir, "http.jsonl"))
	require.NoError(t, err)
	defer f.Close()
	out := map[string]string{}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 8<<20)
	for sc.Scan() {
		var x struct {
			Request  struct{ Method, Path string }
			Response struct {
				Status int
				Body   string
			}
		}
		require.NoError(t, json.Unmarshal(sc.Bytes(), &x))
		if x.Request.Method == "GET" && x.Response.Status == 200 && out[x.Request.Path] == "" {
			out[x.Request.Path] = x.Response.Body
		}
	}
	require.NoError(t, sc.Err())
	return out
}

// server answers paths with bodies; what is missing is 404. Its fields may change while it runs.
type server struct {
	mu     sync.Mutex
	bodies map[string]string
	status map[string]int
	*httptest.Server
}

func serve(t *testing.T, bodies map[string]string) *server {
	t.Helper()
	s := &server{bodies: bodies, status: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	body, ok := s.bodies[r.URL.RequestURI()]
	status := s.status[r.URL.Path]
	s.mu.Unlock()
	switch {
	case status != 0:
		w.WriteHeader(status)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = w.Write([]byte(body))
	}
}

func (s *server) set(path, body string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies[path], s.status[path] = body, status
}

func client(t *testing.T, url string) *vllm.Client {
	t.Helper()
	c, err := vllm.NewClient(url, "key")
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// TestCaptured reads what a real vLLM 0.32 said of itself.
func TestCaptured(t *testing.T) {
	t.Parallel()
	s := serve(t, captured(t))
	c := client(t, s.URL)
	ctx := t.Context()
	models, err := c.Models(ctx)
	require.NoError(t, err)
	base, ok := vllm.Base(models)
	require.True(t, ok)
	require.Equal(t, "tiny-qwen3", base.ID)
	require.EqualValues(t, 8192, base.MaxTokens)
	require.Equal(t, "tiny-qwen3", models[1].Parent)
	require.Equal(t, "./lora-a", models[1].Root)
	require.Contains(t, string(base.Raw), `"permission":[{`)
	version, err := c.Version(ctx)
	require.NoError(t, err)
	require.Equal(t, "0.32.0", version)
	sources, err := c.Sources(ctx)
	require.NoError(t, err)
	require.Equal(t, []vllm.Source{{
		Enabled: true, Publisher: "zmq", Endpoint: "tcp://*:15557", Replay: "tcp://*:15558",
	}}, sources)
	m, err := c.Metrics(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 32, m.BlockTokens)
	require.EqualValues(t, 2047, m.GPUBlocks, "one block is the null block")
	require.True(t, m.PrefixCaching)
	require.False(t, m.Asleep)
	require.Len(t, m.Ranks, 1)
	require.Positive(t, m.Ranks[0].PromptTokens)
	require.Positive(t, m.Ranks[0].Finished)
	require.EqualValues(t, 16, c.MaxSequences(ctx))
	require.NoError(t, c.Health(ctx))
	for _, path := range []string{"/is_paused", "/is_sleeping"} {
		on, err := c.Flag(ctx, path)
		require.NoError(t, err)
		require.False(t, on)
	}
	require.False(t, c.RuntimeLoRA(ctx))
	s.set("/v1/load_lora_adapter", "", http.StatusMethodNotAllowed)
	require.True(t, c.RuntimeLoRA(ctx))
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, page string
		want       vllm.Metrics
	}{
		{"empty", "", vllm.Metrics{PrefixCaching: true}},
		{"two engines", strings.Join([]string{
			`# TYPE vllm:num_requests_running gauge`,
			`vllm:num_requests_running{engine="1",model_name="m"} 3`,
			`vllm:num_requests_waiting{engine="0",model_name="m"} 2.0`,
			`vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9`,
			`vllm:kv_cache_usage_perc{engine="1"} 0.25`,
			`vllm:request_success_total{engine="0",finished_reason="stop"} 4`,
			`vllm:request_success_total{engine="0",finished_reason="length"} 5`,
			`vllm:e2e_request_latency_seconds_bucket{le="1"} 7`,
		}, "\n"), vllm.Metrics{PrefixCaching: true, Ranks: []vllm.RankMetrics{
			{Waiting: 2, Finished: 9}, {Running: 3, KVUse: 0.25},
		}}},
		{"old name, no engine label", "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\n", vllm.Metrics{
			PrefixCaching: true, Ranks: []vllm.RankMetrics{{KVUse: 0.5}},
		}},
		{"asleep", `vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0` + "\n" +
			`vllm:engine_sleep_state{engine="0",sleep_state="discard_all"} 1`, vllm.Metrics{PrefixCaching: true, Asleep: true}},
		{
			"caching off", `vllm:cache_config_info{block_size="16",enable_prefix_caching="False",num_gpu_blocks="None"} 1`,
			vllm.Metrics{BlockTokens: 16},
		},
		{"odd numbers", `vllm:num_requests_running{engine="0"} NaN` + "\n" +
			`vllm:kv_cache_usage_perc{engine="0"} 7` + "\n" + `vllm:num_requests_waiting{engine="-4"} 1` + "\n" +
			`vllm:num_requests_waiting{engine="99999"} 1`, vllm.Metrics{
			PrefixCaching: true, Ranks: []vllm.RankMetrics{{KVUse: 1}},
		}},
	}
	for _, row := range rows {
		got, err := vllm.ParseMetrics([]byte(row.page))
		require.NoError(t, err, row.name)
		require.Equal(t, row.want, got, row.name)
	}
	_, err := vllm.ParseMetrics([]byte(`vllm:num_requests_running{engine= 3`))
	require.Error(t, err)
}

// TestWatcher walks through a worker's life as HTTP shows it.
func TestWatcher(t *testing.T) {
	t.Parallel()
	s := serve(t, captured(t))
	clock := kittest.NewClock()
	w := vllm.NewWatcher(client(t, s.URL), clock.Now)
	step := func() vllm.View {
		clock.Advance(2 * time.Second)
		return w.Step(t.Context())
	}
	v := step()
	require.Equal(t, vllm.Ready, v.Life, v.Detail)
	require.EqualValues(t, 1, v.Generation)
	require.Len(t, v.Sources, 1)

	metrics := s.bodies["/metrics"]
	s.set("/is_paused", `{"is_paused":true}`, 0)
	require.Equal(t, vllm.Asleep, step().Life)
	s.set("/is_paused", `{"is_paused":false}`, 0)
	s.set("/health", "", http.StatusServiceUnavailable)
	require.Equal(t, vllm.Sick, step().Life)
	s.set("/health", "", 0)
	require.Equal(t, vllm.Ready, step().Life)
	s.set("/metrics", "vllm:engine_sleep_state{sleep_state=\"weights_offloaded\"} 1\nvllm:num_requests_running 3\n", 0)
	v = step()
	require.Equal(t, vllm.Asleep, v.Life)
	require.False(t, v.Busy(), "it computes nothing: its gauges are of before")

	s.set("/metrics", "", http.StatusInternalServerError)
	v = step()
	require.Equal(t, vllm.Asleep, v.Life, "one failure says nothing")
	require.True(t, v.Suspect, "but it is looked at again soon")
	step()
	v = step()
	require.Equal(t, vllm.Sick, v.Life)
	require.True(t, v.Suspect)
	s.set("/metrics", metrics+"process_start_time_seconds 1\n", 0)
	v = step()
	require.Equal(t, vllm.Ready, v.Life)
	require.False(t, v.Suspect)
	s.set("/metrics", metrics+"process_start_time_seconds 2\n", 0)
	v = step()
	require.EqualValues(t, 2, v.Generation, "another process answers")

	s.Close()
	v = step()
	require.Equal(t, vllm.Starting, v.Life)
	require.Contains(t, v.Detail, "refuses")
	require.True(t, v.Metrics.PrefixCaching, "what describes the worker is kept")
	require.Equal(t, []vllm.RankMetrics{{}}, v.Metrics.Ranks, "its numbers are not")
}

// TestWatcherDoesNotWaitForTheEnvironment: /server_info of a real vLLM 0.32 answered after four seconds.
func TestWatcherDoesNotWaitForTheEnvironment(t *testing.T) {
	t.Parallel()
	s := serve(t, captured(t))
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/server_info" {
			<-release
			_, _ = io.WriteString(w, `{"vllm_config":{"scheduler_config":{"max_num_seqs":7}}}`)
			return
		}
		s.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	w := vllm.NewWatcher(client(t, slow.URL), time.Now)
	v := w.Step(t.Context())
	require.Equal(t, vllm.Ready, v.Life, v.Detail)
	require.Zero(t, v.MaxSequences)
	close(release)
	w.Wait()
	v = w.Step(t.Context())
	require.EqualValues(t, 7, v.MaxSequences)
}

// TestWatcherStarts: before the model list is there a worker starts; a refused key is told.
func TestWatcherStarts(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"/v1/models": `{"data":[]}`})
	w := vllm.NewWatcher(client(t, s.URL), time.Now)
	v := w.Step(t.Context())
	require.Equal(t, vllm.Starting, v.Life)
	require.Contains(t, v.Detail, "no base model")
	s.set("/v1/models", "", http.StatusUnauthorized)
	v = w.Step(t.Context())
	require.Equal(t, vllm.Sick, v.Life)
	require.Contains(t, v.Detail, "api_key")
	for path, body := range captured(t) {
		s.set(path, body, 0)
	}
	for _, path := range []string{"/version", "/kv_event_sources", "/is_paused"} {
		s.set(path, "", http.StatusNotFound)
	}
	v = w.Step(t.Context())
	require.Equal(t, vllm.Ready, v.Life, v.Detail)
	require.Nil(t, v.Sources, "an older vLLM does not tell")
	for _, odd := range []string{"[]", `"x"`, "<html>", "{}", `{"a":{}}`, `{"0":null}`} {
		s.set("/kv_event_sources", odd, 0)
		v = vllm.NewWatcher(client(t, s.URL), time.Now).Step(t.Context())
		require.Equal(t, vllm.Ready, v.Life, "another server behind the route: %s: %s", odd, v.Detail)
		require.Nil(t, v.Sources)
	}
}

func TestClientRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "host:1", "ftp://h", "http://"} {
		_, err := vllm.NewClient(bad, "")
		require.Error(t, err, bad)
	}
	s := serve(t, map[string]string{
		"/kv_event_sources": `{"1":{}}`, "/v1/models": `[]`, "/version": strings.Repeat("x", 9<<20),
	})
	c := client(t, s.URL)
	require.Equal(t, "127.0.0.1", c.Host())
	_, err := c.Sources(t.Context())
	require.ErrorContains(t, err, "odd rank")
	_, err = c.Models(t.Context())
	require.Error(t, err)
	_, err = c.Version(t.Context())
	require.ErrorContains(t, err, "more than")
}
