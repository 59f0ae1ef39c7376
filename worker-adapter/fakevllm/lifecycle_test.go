package fakevllm_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// endless is a stream that runs until something ends it: steps take time, and there are very many.
const endless = `{"prompt":"a","max_tokens":30000,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`

func paced() fakevllm.Config {
	return fakevllm.Config{Coefficients: fakevllm.Profile{Base: 1e-3}}
}

// metric returns the value of the first sample whose line begins with the name.
func metric(t *testing.T, url, name string) float64 {
	t.Helper()
	res, err := http.Get(url + "/metrics") //nolint:noctx // answers at once
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `[^\n]* (\S+)$`).FindStringSubmatch(readAll(t, res))
	require.NotNil(t, m, "no metric %s", name)
	v, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	return v
}

func TestAbortEndsStreams(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, path, body, want string }{
		{"all", "/abort_requests", `{"request_ids":[]}`, `{"status":"aborted","aborted":1}`},
		{"by engine id", "/abort_requests", `{"request_ids":["cmpl-victim-1-0"]}`, `{"status":"aborted","aborted":1}`},
		{"by answer id", "/abort_requests", `{"request_ids":["cmpl-victim-1"]}`, `{"status":"aborted","aborted":1}`},
		{"pause with abort", "/pause?mode=abort", "", `{"status":"paused"}`},
		{"sleep", "/sleep?level=1&mode=abort", "", `{"status":"sleeping","level":1}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, url := start(t, paced())
			_, r := stream(t, t.Context(), url+"/v1/completions", endless, "X-Request-Id", "victim-1")
			require.Contains(t, nextEvent(t, r), `"id":"cmpl-victim-1"`)
			_, body := post(t, url+row.path, row.body)
			require.Equal(t, row.want, body)
			events := []string{}
			for {
				e := nextEvent(t, r)
				events = append(events, e)
				if e == "data: [DONE]" {
					break
				}
			}
			n := len(events)
			require.Contains(t, events[n-3], `"finish_reason":"abort","stop_reason":null`)
			require.Contains(t, events[n-2], `"choices":[],"usage":{"prompt_tokens":1,`)
		})
	}
}

func TestClientThatGoesAwayAbortsItsRequest(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, body string }{
		{"streaming", endless},
		{"not streaming", strings.Replace(endless, `,"stream":true,"stream_options":{"include_usage":true}`, "", 1)},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, url := start(t, paced())
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(row.body))
				if err != nil {
					return
				}
				req.Header.Set("Content-Type", "application/json")
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					return
				}
				<-ctx.Done()
				_ = res.Body.Close()
			}()
			running := func(want float64) {
				for metric(t, url, "vllm:num_requests_running") != want {
					require.NoError(t, t.Context().Err())
				}
			}
			running(1)
			cancel()
			<-gone
			running(0)
			require.Zero(t, metric(t, url, `vllm:request_success_total{engine="0",finished_reason="abort"`))
			for metric(t, url, "vllm:kv_cache_usage_perc") != 0 { // blocks come back with the next step
				require.NoError(t, t.Context().Err())
			}
		})
	}
}

func TestFullQueueRefuses(t *testing.T) {
	t.Parallel()
	cfg := paced()
	cfg.MaxNumSeqs, cfg.MaxNumQueuedReqs = 1, 1
	_, url := start(t, cfg)
	_, r := stream(t, t.Context(), url+"/v1/completions", endless)
	nextEvent(t, r)
	waiting := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(waiting)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(endless))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	for metric(t, url, "vllm:num_requests_waiting") != 1 {
		require.NoError(t, t.Context().Err())
	}
	const busy = "The engine is currently busy and cannot accept new requests. Please try again later or on a different " +
		"instance."
	res, body := post(t, url+"/v1/completions", `{"prompt":"b","max_tokens":1}`)
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.Equal(t, `{"error":{"message":"`+busy+`","type":"Service Unavailable","param":null,"code":503}}`, body)
	res, body = post(t, url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"b"}],"stream":true}`)
	require.Equal(t, 200, res.StatusCode, "the stream has begun when the engine refuses")
	require.Equal(t, `data: {"error": {"message": "`+busy+`", "type": "Service Unavailable", "param": null, "code": 503}}`+
		"\n\ndata: [DONE]\n\n", body)
	require.EqualValues(t, 2, metric(t, url, "vllm:admission_rejections_total"))
	cancel()
	<-waiting
}

func TestSleepClearsAndHoldsRequests(t *testing.T) {
	t.Parallel()
	cfg := captured()
	s, url := start(t, cfg)
	prompt := "[" + strings.TrimSuffix(strings.Repeat("7,", 69), ",") + "]"
	body := `{"prompt":` + prompt + `,"max_tokens":1}`
	ask := func() string {
		_, text := post(t, url+"/v1/completions", body)
		return strings.Join(cachedTokens(text), "")
	}
	require.Equal(t, `"cached_tokens":0`, ask())
	require.Equal(t, `"cached_tokens":64`, ask())
	_, text := post(t, url+"/sleep?level=1", "")
	require.Equal(t, `{"status":"sleeping","level":1}`, text)
	require.EqualValues(t, 1, metric(t, url, `vllm:engine_sleep_state{engine="0",model_name="tiny-qwen3",sleep_state="weights_offloaded"}`))
	res, err := http.Get(url + "/health") //nolint:noctx // answers at once
	require.NoError(t, err)
	_ = res.Body.Close()
	require.Equal(t, 200, res.StatusCode, "health does not tell")
	require.Len(t, replay(t, s, 0, 0), 1, "an idle engine says nothing of the cleared cache")

	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(body))
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
			_, err = http.DefaultClient.Do(req)
		}
		given <- err
	}()
	for metric(t, url, "vllm:num_requests_waiting") != 1 {
		require.NoError(t, t.Context().Err())
	}
	cancel()
	require.ErrorIs(t, <-given, context.Canceled)
	for len(replay(t, s, 0, 0)) != 2 { // the request that was given up lets the news out
		require.NoError(t, t.Context().Err())
	}
	require.Equal(t, "AllBlocksCleared", events(t, unpack(t, replay(t, s, 0, 1)[0].payload))[0].Kind)
	_, text = post(t, url+"/wake_up", "")
	require.Equal(t, `{"status":"awake","tags":null}`, text)
	require.Equal(t, `"cached_tokens":0`, ask())
}

func TestPauseKeepsOrClearsTheCache(t *testing.T) {
	t.Parallel()
	_, url := start(t, captured())
	body := `{"prompt":[` + strings.TrimSuffix(strings.Repeat("9,", 69), ",") + `],"max_tokens":1}`
	for _, row := range []struct{ query, want string }{
		{"", `"cached_tokens":0`},
		{"?mode=wait&clear_cache=false", `"cached_tokens":64`},
		{"?mode=wait", `"cached_tokens":0`},
	} {
		if row.query != "" {
			_, text := post(t, url+"/pause"+row.query, "")
			require.Equal(t, `{"status":"paused"}`, text)
			_, text = post(t, url+"/resume", "")
			require.Equal(t, `{"status":"resumed"}`, text)
		}
		_, text := post(t, url+"/v1/completions", body)
		require.Equal(t, row.want, cachedTokens(text)[0], row.query)
	}
}

func TestRestartBeginsAgainAtTheSamePorts(t *testing.T) {
	t.Parallel()
	s, url := start(t, captured())
	body := `{"prompt":[` + strings.TrimSuffix(strings.Repeat("9,", 69), ",") + `],"max_tokens":1}`
	_, _ = post(t, url+"/v1/completions", body)
	before := replay(t, s, 0, 0)
	live, again := s.EventEndpoints(0)
	_, _ = post(t, url+"/fakevllm/faults", `{"restart":true}`)
	liveNow, againNow := s.EventEndpoints(0)
	require.Equal(t, []string{live, again}, []string{liveNow, againNow})
	require.Empty(t, replay(t, s, 0, 0), "the buffer of a new process is empty")
	_, text := post(t, url+"/v1/completions", body)
	require.Equal(t, `"cached_tokens":0`, cachedTokens(text)[0])
	after := replay(t, s, 0, 0)
	require.Len(t, after, 1)
	require.Zero(t, after[0].seq)
	want, got := events(t, unpack(t, before[0].payload)), events(t, unpack(t, after[0].payload))
	require.Equal(t, want, got, "equal hashes after a restart")
}

func TestRanksHaveTheirOwnStreams(t *testing.T) {
	t.Parallel()
	cfg := captured()
	cfg.DataParallelSize = 2
	s, url := start(t, cfg)
	body := `{"prompt":[` + strings.TrimSuffix(strings.Repeat("5,", 69), ",") + `],"max_tokens":1}`
	for _, row := range []struct{ rank, want string }{
		{"0", `"cached_tokens":0`}, {"1", `"cached_tokens":0`}, {"0", `"cached_tokens":64`}, {"1", `"cached_tokens":64`},
	} {
		_, text := post(t, url+"/v1/completions", body, "X-data-parallel-rank", row.rank)
		require.Equal(t, row.want, cachedTokens(text)[0])
	}
	res, text := post(t, url+"/v1/completions", body, "X-data-parallel-rank", "2")
	require.Equal(t, 400, res.StatusCode)
	require.Contains(t, text, "data_parallel_rank 2 is out of range [0, 2).")
	var hashes []string
	for rank := range 2 {
		batches := replay(t, s, rank, 0)
		require.Len(t, batches, 1)
		b := unpack(t, batches[0].payload)
		require.Equal(t, fmt.Sprint(rank), fmt.Sprint(b[2]))
		hashes = append(hashes, fmt.Sprint(events(t, b)[0].Hashes))
	}
	require.Equal(t, hashes[0], hashes[1])
	res, err := http.Get(url + "/kv_event_sources") //nolint:noctx // answers at once
	require.NoError(t, err)
	list := readAll(t, res)
	for rank := range 2 {
		live, again := s.EventEndpoints(rank)
		require.Contains(t, list, fmt.Sprintf(`"%d":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"%s",`+
			`"replay_endpoint":"%s"`, rank, live, again))
	}
	first := map[string]bool{}
	for i := range 4 { // without a header they take turns
		_, _ = post(t, url+"/v1/completions", strings.Replace(body, "5,", strconv.Itoa(10+i)+",", 1))
		first[fmt.Sprint(len(replay(t, s, 0, 0)), len(replay(t, s, 1, 0)))] = true
	}
	require.Len(t, replay(t, s, 0, 0), 3)
	require.Len(t, replay(t, s, 1, 0), 3)
	require.Len(t, first, 4)
}

func TestMetricsNamesAndLabels(t *testing.T) {
	t.Parallel()
	_, url := start(t, captured())
	_, _ = post(t, url+"/v1/completions", `{"prompt":"hello","max_tokens":3}`)
	res, err := http.Get(url + "/metrics") //nolint:noctx // answers at once
	require.NoError(t, err)
	got := series(readAll(t, res))
	for name, labels := range capturedSeries(t) {
		require.Contains(t, got, name)
		require.Equal(t, labels, got[name], name)
	}
}
