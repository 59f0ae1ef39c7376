package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// services stands for all three; no worker means that nobody serves anything.
type services struct {
	schedulerv1.SchedulerServiceClient
	url string
}

func (s services) Route(context.Context, *schedulerv1.RouteRequest, ...grpc.CallOption) (*schedulerv1.RouteResponse, error) {
	return &schedulerv1.RouteResponse{Reservation: 1, Target: &schedulerv1.Target{WorkerId: "w"}, HttpUrl: s.url, Policy: "p"}, nil
}

func (services) Progress(context.Context, *schedulerv1.ProgressRequest, ...grpc.CallOption) (*schedulerv1.ProgressResponse, error) {
	return &schedulerv1.ProgressResponse{}, nil
}

func (services) Settle(context.Context, *schedulerv1.SettleRequest, ...grpc.CallOption) (*schedulerv1.SettleResponse, error) {
	return &schedulerv1.SettleResponse{}, nil
}

func (s services) ListModels(context.Context, *schedulerv1.ListModelsRequest, ...grpc.CallOption) (*schedulerv1.ListModelsResponse, error) {
	if s.url == "" {
		return &schedulerv1.ListModelsResponse{}, nil
	}
	return &schedulerv1.ListModelsResponse{Models: []*schedulerv1.FleetModel{{Id: "m", Workers: 1, ReadyWorkers: 1}}}, nil
}

type templates struct {
	templatev1.TemplateServiceClient
}

func (templates) Render(context.Context, *templatev1.RenderRequest, ...grpc.CallOption) (*templatev1.RenderResponse, error) {
	return nil, fault.New(faultv1.Reason_REASON_UNSUPPORTED_MODEL, "no")
}

type tokenizers struct {
	tokenizerv1.TokenizerServiceClient
}

func (tokenizers) Encode(context.Context, *tokenizerv1.EncodeRequest, ...grpc.CallOption) (*tokenizerv1.EncodeResponse, error) {
	return nil, fault.New(faultv1.Reason_REASON_UNSUPPORTED_MODEL, "no")
}

// running is a gateway that serves.
type running struct {
	*gateway.Service
	url  string
	stop func() error
}

func run(t *testing.T, cfg gateway.Config, url string, log io.Writer) *running {
	t.Helper()
	if cfg.Address == "" {
		cfg.Address = "127.0.0.1:0"
	}
	g, err := gateway.New(context.Background(), cfg, gateway.Deps{
		Log:      slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Template: templates{}, Tokenizer: tokenizers{}, Scheduler: services{url: url},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	r := &running{Service: g, url: "http://" + g.Addr(context.Background())}
	var once sync.Once
	var result error
	r.stop = func() error {
		once.Do(func() { cancel(); result = <-done })
		return result
	}
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// worker answers every request with a function over the raw connection.
func worker(t *testing.T, answer func(c net.Conn, body string)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				br := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					b, _ := io.ReadAll(r.Body)
					answer(c, string(b))
				}
			})
		}
	})
	t.Cleanup(func() { _ = ln.Close(); wg.Wait() })
	return "http://" + ln.Addr().String()
}

func reply(c net.Conn, body string) {
	_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func streamHead(c net.Conn) {
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
}

func event(c net.Conn, data string) {
	e := "data: " + data + "\n\n"
	_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", len(e), e)
}

const token = `{"id":"c","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`

func TestConfigReportsEveryFault(t *testing.T) {
	t.Parallel()
	cfg := gateway.Config{
		Address: "nowhere", Attempts: -1, MaxDepth: -1, MaxBodyBytes: -1, MaxChoices: -1, MaxEventBytes: 1, PlainBufferBytes: 1,
		FanoutConcurrency: -1, MaxInflight: -1, MaxInflightPerWorker: -1, TLSCert: "x", PromptBudget: -time.Second,
		FleetRefresh: -1, DrainTimeout: -1, Keys: []gateway.Key{{Name: "a"}, {Key: "k"}, {Key: "k", SHA256: "s"}},
		Hedge:  gateway.HedgeConfig{Delay: -1, Quantile: 1, Budget: 2},
		LoRA:   gateway.LoRAConfig{Path: "/x", Workers: -1, MaxPerWorker: -1, Timeout: -1},
		Worker: gateway.WorkerConfig{ConnectTimeout: -1, IdleTimeout: -1, MaxIdle: -1},
	}
	cfg.SetDefaults()
	var paths []string
	for _, f := range conf.List(cfg.Validate()) {
		paths = append(paths, f.Path)
	}
	require.Equal(t, []string{
		"address", "tls_cert", "max_body_bytes", "max_depth", "max_choices", "max_event_bytes", "plain_buffer_bytes", "attempts",
		"fanout_concurrency", "max_inflight", "max_inflight_per_worker", "worker.max_idle", "prompt_budget", "fleet_refresh",
		"worker.connect_timeout", "worker.idle_timeout", "drain_timeout", "keys[0]", "keys[2]", "hedge.delay", "hedge.quantile",
		"hedge.budget", "lora.workers", "lora.max_per_worker", "lora.timeout", "lora.path", "lora.base",
	}, paths)
	cfg = gateway.Config{DefaultModel: "m", LoRA: gateway.LoRAConfig{Path: "/x/{name}", Base: "b"}}
	cfg.SetDefaults()
	require.EqualError(t, cfg.Validate(), "lora.path: cannot be combined with default_model, which serves unknown names")
	var ok gateway.Config
	ok.SetDefaults()
	require.NoError(t, ok.Validate())
	_, err := gateway.New(context.Background(), ok, gateway.Deps{})
	require.ErrorContains(t, err, "needs a logger")
}

func TestATakenPortIsNamed(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	g, err := gateway.New(context.Background(), gateway.Config{Address: ln.Addr().String()}, gateway.Deps{
		Log: slog.New(slog.DiscardHandler), Template: templates{}, Tokenizer: tokenizers{}, Scheduler: services{},
	})
	require.NoError(t, err)
	require.ErrorContains(t, g.Run(context.Background()), ln.Addr().String())
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	r := run(t, gateway.Config{}, "", io.Discard)
	require.ErrorContains(t, r.Ready(context.Background()), "no worker")
	r = run(t, gateway.Config{}, "http://127.0.0.1:1", io.Discard)
	require.NoError(t, r.Ready(context.Background()))
	require.NoError(t, r.stop())
	require.ErrorContains(t, r.Ready(context.Background()), "stopping")
}

// TestDrainFinishesWhatRuns: a stream that runs when the gateway is stopped ends whole; new calls are still answered
// during the grace.
func TestDrainFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(more) })
	url := worker(t, func(c net.Conn, body string) {
		if !strings.Contains(body, `"stream":true`) {
			reply(c, `{"choices":[]}`)
			return
		}
		streamHead(c)
		event(c, token)
		<-more
		event(c, strings.Replace(token, "null", `"stop"`, 1))
		event(c, "[DONE]")
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	r := run(t, gateway.Config{DrainGrace: 2 * time.Second}, url, io.Discard)
	t.Cleanup(goOn) // before the worker's end, which waits for its answers
	resp, err := http.Post(r.url+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[{}],"stream":true}`))
	require.NoError(t, err)
	defer resp.Body.Close()
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	for r.Ready(context.Background()) == nil { //nolint:revive // polls until the stop has begun
	}
	second, err := http.Post(r.url+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[{}]}`))
	require.NoError(t, err)
	_ = second.Body.Close()
	require.Equal(t, 200, second.StatusCode)
	goOn()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(body), "data: [DONE]\n\n"), string(body))
	require.NoError(t, <-stopped)
	_, err = http.Get(r.url + "/health")
	require.Error(t, err)
}

// TestDrainIsBounded: a stream that never ends does not keep the gateway.
func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	url := worker(t, func(c net.Conn, _ string) { streamHead(c); event(c, token) })
	r := run(t, gateway.Config{DrainTimeout: 50 * time.Millisecond}, url, io.Discard)
	resp, err := http.Post(r.url+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[{}],"stream":true}`))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.NoError(t, r.stop())
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err, "the cut can be seen")
}

// TestNothingSecretIsLogged sends markers everywhere a secret or a prompt can be and searches all output.
func TestNothingSecretIsLogged(t *testing.T) {
	t.Parallel()
	url := worker(t, func(c net.Conn, body string) {
		if strings.Contains(body, "reset") {
			_ = c.Close()
			return
		}
		reply(c, `{"choices":[{"message":{"content":"marker-answer"}}]}`)
	})
	var mu sync.Mutex
	var log bytes.Buffer
	r := run(t, gateway.Config{Keys: []gateway.Key{{Name: "team", Key: "marker-key"}}, WorkerKey: "marker-worker"}, url, writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}))
	for _, body := range []string{
		`{"messages":[{"role":"user","content":"marker-prompt"}]}`, `{"messages":[{"content":"marker-prompt reset"}]}`, `{"messages":"marker-prompt"}`,
		`{"messages":[{"content":"marker-prompt"}],"model":"m","stream":"marker-prompt"}`, `{"marker-prompt`,
	} {
		for _, key := range []string{"marker-key", "marker-wrong"} {
			req, err := http.NewRequest("POST", r.url+"/v1/chat/completions", strings.NewReader(body))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+key)
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			b, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			require.NotContains(t, string(b), "marker-key")
			if resp.StatusCode >= 400 {
				require.NotContains(t, string(b), "marker-prompt")
				require.NotContains(t, string(b), "127.0.0.1")
			}
		}
	}
	require.NoError(t, r.stop())
	require.NotEmpty(t, log.String())
	require.NotContains(t, log.String(), "marker-")
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// dial is a gRPC client of the gateway.
func dial(t *testing.T, r *running) *grpc.ClientConn {
	t.Helper()
	pipe := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	r.Register(server)
	go func() { _ = server.Serve(pipe) }()
	conn, err := grpc.NewClient("passthrough:///g", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(); server.Stop() })
	return conn
}

// collect reads all messages of a stream.
func collect(st grpc.ServerStreamingClient[httpbody.HttpBody]) (string, error) {
	var out strings.Builder
	for {
		b, err := st.Recv()
		if errors.Is(err, io.EOF) {
			return out.String(), nil
		}
		if err != nil {
			return out.String(), err
		}
		out.Write(b.GetData())
	}
}

func text(s string) *string { return &s }

func TestTypedCallers(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	url := worker(t, func(c net.Conn, body string) {
		got <- body
		if !strings.Contains(body, `"stream":true`) {
			reply(c, `{"choices":[],"usage":{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":1}}}`)
			return
		}
		streamHead(c)
		event(c, token)
		event(c, strings.Replace(token, "null", `"stop"`, 1))
		event(c, "[DONE]")
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	client := gatewayv1.NewOpenAIServiceClient(dial(t, run(t, gateway.Config{}, url, io.Discard)))
	messages := []*gatewayv1.ChatMessage{{Role: "user", Content: text("hi")}}

	st, err := client.ChatCompletions(context.Background(), &gatewayv1.ChatCompletionsRequest{Model: "m", Messages: messages})
	require.NoError(t, err)
	body, err := collect(st)
	require.NoError(t, err)
	require.Contains(t, body, `"choices":[]`)
	require.JSONEq(t, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, <-got)
	md, err := st.Header()
	require.NoError(t, err)
	require.Equal(t, []string{"200"}, md["x-http-status"])
	require.Equal(t, []string{"w"}, md["x-http-header-x-kvmesh-worker"])
	require.Equal(t, []string{"1"}, md["x-http-header-x-kvmesh-cached-tokens"])

	yes := true
	st, err = client.ChatCompletions(context.Background(), &gatewayv1.ChatCompletionsRequest{Messages: messages, Stream: &yes})
	require.NoError(t, err)
	body, err = collect(st)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(body, "data: {") && strings.HasSuffix(body, "data: [DONE]\n\n"))
	<-got

	st, err = client.ChatCompletions(context.Background(), &gatewayv1.ChatCompletionsRequest{Model: "none", Messages: messages})
	require.NoError(t, err)
	_, err = collect(st)
	require.Equal(t, codes.NotFound, status.Code(err))
	require.Equal(t, faultv1.Reason_REASON_MODEL_NOT_FOUND, fault.ReasonOf(err), "the reason crosses gRPC")
	st, err = client.ChatCompletions(context.Background(), &gatewayv1.ChatCompletionsRequest{Model: "m"})
	require.NoError(t, err)
	_, err = collect(st)
	require.Equal(t, "messages", fault.From(err).Param)
}

// TestWhatManyPromptsRepeatIsBounded: members beside the list are sent with each prompt.
func TestWhatManyPromptsRepeatIsBounded(t *testing.T) {
	t.Parallel()
	url := worker(t, func(c net.Conn, _ string) { reply(c, `{"choices":[{"index":0}],"usage":{"prompt_tokens":1}}`) })
	g := run(t, gateway.Config{MaxBodyBytes: 4096}, url, io.Discard)
	for path, row := range map[string]struct{ list, name string }{
		"/v1/completions":            {`"a"`, "prompt"},
		"/v1/chat/completions/batch": {`[{}]`, "messages"},
	} {
		for beside, want := range map[int]int{100: http.StatusOK, 2000: http.StatusBadRequest} {
			list := strings.TrimSuffix(strings.Repeat(row.list+",", 200), ",")
			head, tail := `{"`+row.name+`":[`, `],"x":"`+strings.Repeat("x", beside)+`"}`
			resp, err := http.Post(g.url+path, "application/json", strings.NewReader(head+list+tail))
			require.NoError(t, err)
			raw, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, resp.StatusCode, "%s %d: %s", path, beside, raw)
		}
	}
}

// TestBeforeTheFirstWorker: a client is told to try again, whatever it asks for; the list of models is empty.
func TestBeforeTheFirstWorker(t *testing.T) {
	t.Parallel()
	g := run(t, gateway.Config{}, "", io.Discard)
	for path, method := range map[string]string{
		"/v1/models/m": "GET", "/health": "GET", "/ready": "GET", "/v1/chat/completions": "POST", "/v1/embeddings": "POST",
	} {
		q, err := http.NewRequest(method, g.url+path, strings.NewReader(`{"model":"m","messages":[{}],"input":"x"}`))
		require.NoError(t, err)
		q.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, path)
		require.NotEmpty(t, resp.Header.Get("Retry-After"), path)
	}
	resp, err := http.Get(g.url + "/v1/models")
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"object":"list","data":[]}`, string(raw))
}

// TestGRPCBodiesHaveTheLimitToo: JSON and forms.
func TestGRPCBodiesHaveTheLimitToo(t *testing.T) {
	t.Parallel()
	url := worker(t, func(c net.Conn, _ string) { reply(c, `{"choices":[]}`) })
	client := gatewayv1.NewOpenAIServiceClient(dial(t, run(t, gateway.Config{MaxBodyBytes: 4096}, url, io.Discard)))
	for size, want := range map[int]codes.Code{4096: codes.OK, 4097: status.Code(fault.New(faultv1.Reason_REASON_TOO_LARGE, ""))} {
		st, err := client.ChatCompletions(context.Background(), &gatewayv1.ChatCompletionsRequest{
			RawJson: []byte(filled(`"messages":[{"role":"user","content":"x"}]`, size)),
		})
		require.NoError(t, err)
		_, err = collect(st)
		require.Equal(t, want, status.Code(err), "%d: %v", size, err)

		head, tail := "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--B\r\n\r\n", "\r\n--B--\r\n"
		st, err = client.Transcriptions(context.Background(), &gatewayv1.FormRequest{
			ContentType: "multipart/form-data; boundary=B", Form: []byte(head + strings.Repeat("x", size-len(head)-len(tail)) + tail),
		})
		require.NoError(t, err)
		_, err = collect(st)
		require.Equal(t, want, status.Code(err), "%d: %v", size, err)
		if want != codes.OK {
			require.Equal(t, faultv1.Reason_REASON_TOO_LARGE, fault.ReasonOf(err))
		}
	}
}

func TestGRPCCallersNeedAKeyToo(t *testing.T) {
	t.Parallel()
	url := worker(t, func(c net.Conn, _ string) { reply(c, `{}`) })
	r := run(t, gateway.Config{Keys: []gateway.Key{{Key: "k"}}}, url, io.Discard)
	client := gatewayv1.NewOpenAIServiceClient(dial(t, r))
	ask := func(ctx context.Context) error {
		st, err := client.ListModels(ctx, &gatewayv1.ListModelsRequest{})
		require.NoError(t, err)
		_, err = collect(st)
		return err
	}
	require.Equal(t, codes.Unauthenticated, status.Code(ask(context.Background())))
	require.NoError(t, ask(metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer k")))
}

// TestManyStreamsAtOnce: no hidden cap on connections or streams.
func TestManyStreamsAtOnce(t *testing.T) {
	t.Parallel()
	const streams = 500
	release := make(chan struct{})
	url := worker(t, func(c net.Conn, _ string) {
		streamHead(c)
		event(c, token)
		<-release
		event(c, strings.Replace(token, "null", `"stop"`, 1))
		event(c, "[DONE]")
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	r := run(t, gateway.Config{}, url, io.Discard)
	var open, ended sync.WaitGroup
	open.Add(streams)
	failures := make(chan error, streams)
	client := &http.Client{Transport: &http.Transport{}}
	for range streams {
		ended.Go(func() {
			resp, err := client.Post(r.url+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[{}],"stream":true}`))
			open.Done()
			if err != nil {
				failures <- err
				return
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
				failures <- fmt.Errorf("stream ended with %w: %q", err, b)
			}
		})
	}
	open.Wait()
	close(release)
	ended.Wait()
	client.CloseIdleConnections()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
}
