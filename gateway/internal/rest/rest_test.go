package rest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/admit"
	"github.com/kvmesh/kvmesh/gateway/internal/flight"
	"github.com/kvmesh/kvmesh/gateway/internal/inbound"
	"github.com/kvmesh/kvmesh/gateway/internal/reply"
	"github.com/kvmesh/kvmesh/gateway/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service answers every chat request with a function; it knows nothing of the edge.
type service struct {
	gatewayv1.UnimplementedOpenAIServiceServer
	gatewayv1.UnimplementedMeshServiceServer
	chat func(q *gatewayv1.ChatCompletionsRequest, w reply.Writer) error
}

func (s *service) ChatCompletions(q *gatewayv1.ChatCompletionsRequest, st gatewayv1.OpenAIService_ChatCompletionsServer) error {
	w := reply.Over(st)
	if in := inbound.From(st.Context()); in != nil {
		w = in.Writer
	}
	return s.chat(q, w)
}

func (s *service) GetModel(q *gatewayv1.GetModelRequest, st gatewayv1.OpenAIService_GetModelServer) error {
	// Sends messages, as code that does not know the edge would.
	if err := st.SetHeader(metadata.Pairs(reply.StatusKey, "201", reply.TypeKey, "text/plain", reply.FieldPrefix+"x-note", "n")); err != nil {
		return err
	}
	return st.Send(&httpbody.HttpBody{Data: []byte(q.GetModel())})
}

// doors serves the edge twice: with the service in this process, and with a real gRPC connection in between.
func doors(t *testing.T, s *service, interceptors ...grpc.StreamServerInterceptor) map[string]string {
	t.Helper()
	conn := NewConn(interceptors...)
	pipe := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.ChainStreamInterceptor(interceptors...))
	for _, r := range []grpc.ServiceRegistrar{conn, server} {
		gatewayv1.RegisterOpenAIServiceServer(r, s)
		gatewayv1.RegisterMeshServiceServer(r, s)
	}
	go func() { _ = server.Serve(pipe) }()
	remote, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = remote.Close(); server.Stop() })
	out := map[string]string{}
	for name, c := range map[string]grpc.ClientConnInterface{"in process": conn, "gRPC": Pump{remote}} {
		ok := func(context.Context) error { return nil }
		e, err := New(context.Background(), Config{MaxBodyBytes: 1000, Origins: []string{"https://a.example"}}, Deps{
			Conn: c, Telemetry: flight.New(slog.New(slog.DiscardHandler), nil, time.Now), Clock: time.Now, Healthy: ok, Ready: ok,
			OpenAPI: func() ([]byte, error) { return []byte("{}"), nil },
		})
		require.NoError(t, err)
		ts := httptest.NewUnstartedServer(e)
		ts.Listener, ts.Config.ConnContext = NewGathering(ts.Listener), ConnContext
		ts.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		ts.Start()
		t.Cleanup(ts.Close)
		out[name] = ts.URL
	}
	return out
}

func post(t *testing.T, url, body string) (*http.Response, string, error) {
	t.Helper()
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// each runs a check at both doors.
func each(t *testing.T, s *service, check func(t *testing.T, url string), interceptors ...grpc.StreamServerInterceptor) {
	t.Helper()
	for name, url := range doors(t, s, interceptors...) {
		t.Run(name, func(t *testing.T) { check(t, url) })
	}
}

func TestPlainAnswersHaveALength(t *testing.T) {
	t.Parallel()
	odd := `{"a":1.0,"a":2 , "ü":"\ud83d"}`
	s := &service{chat: func(q *gatewayv1.ChatCompletionsRequest, w reply.Writer) error {
		return reply.JSON(w, 418, q.GetRawJson(), wire.Field{Name: "x-a", Value: "1"}, wire.Field{Name: "X-A", Value: "2"})
	}}
	each(t, s, func(t *testing.T, url string) {
		resp, body, err := post(t, url, odd)
		require.NoError(t, err)
		require.Equal(t, 418, resp.StatusCode)
		require.Equal(t, odd, body, "the bytes go in and out as they are")
		require.EqualValues(t, len(odd), resp.ContentLength)
		require.Equal(t, []string{"1", "2"}, resp.Header["X-A"])
		require.Equal(t, []string{"kvmesh"}, resp.Header["Server"])
		require.NotEmpty(t, resp.Header.Get("X-Request-Id"))
		for k := range resp.Header {
			require.False(t, strings.HasPrefix(k, "Grpc-"), k)
		}
	})
}

// TestStreamsAreFlushedMessageByMessage: the second event is only sent when the client has the first.
// TestNoTypeIsGuessed: an answer without a content type stays one.
func TestNoTypeIsGuessed(t *testing.T) {
	t.Parallel()
	for _, length := range []int64{6, -1} {
		s := &service{chat: func(_ *gatewayv1.ChatCompletionsRequest, w reply.Writer) error {
			if err := w.Head(&reply.Head{Status: 200, Length: length}); err != nil {
				return err
			}
			return w.Data([]byte("<html>"))
		}}
		each(t, s, func(t *testing.T, url string) {
			resp, body, err := post(t, url, "{}")
			require.NoError(t, err)
			require.Equal(t, "<html>", body)
			require.NotContains(t, resp.Header, "Content-Type")
		})
	}
}

func TestStreamsAreFlushedMessageByMessage(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{})
	s := &service{chat: func(_ *gatewayv1.ChatCompletionsRequest, w reply.Writer) error {
		if err := w.Head(&reply.Head{Status: 200, ContentType: "text/event-stream", Length: -1, Trailers: []string{cachedTrailer}}); err != nil {
			return err
		}
		buf := []byte("data: 1\n\n")
		if err := w.Data(buf); err != nil {
			return err
		}
		<-seen
		copy(buf, "data: 2\n\n")
		w.Trailer(cachedTrailer, "5")
		return w.Data(buf)
	}}
	each(t, s, func(t *testing.T, url string) {
		resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{}`))
		require.NoError(t, err)
		defer resp.Body.Close()
		require.EqualValues(t, -1, resp.ContentLength)
		require.Equal(t, "no-cache", resp.Header.Get("Cache-Control"))
		var b [64]byte
		n, err := resp.Body.Read(b[:])
		require.NoError(t, err)
		require.Equal(t, "data: 1\n\n", string(b[:n]))
		seen <- struct{}{}
		rest, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "data: 2\n\n", string(rest))
		require.Equal(t, "5", resp.Trailer.Get(cachedTrailer))
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	refused := fault.New(faultv1.Reason_REASON_OVERLOADED, "full").WithRetryAfter(3 * time.Second)
	t.Run("before the first byte", func(t *testing.T) {
		t.Parallel()
		each(t, &service{chat: func(*gatewayv1.ChatCompletionsRequest, reply.Writer) error { return refused }}, func(t *testing.T, url string) {
			resp, body, err := post(t, url, `{}`)
			require.NoError(t, err)
			require.Equal(t, 429, resp.StatusCode)
			require.Equal(t, "3", resp.Header.Get("Retry-After"))
			require.Contains(t, body, `"type":"rate_limit_error"`)
		})
	})
	t.Run("inside a stream", func(t *testing.T) {
		t.Parallel()
		s := &service{chat: func(_ *gatewayv1.ChatCompletionsRequest, w reply.Writer) error {
			_ = w.Head(&reply.Head{Status: 200, ContentType: "text/event-stream", Length: -1})
			_ = w.Data([]byte("data: 1\n\n"))
			return refused
		}}
		each(t, s, func(t *testing.T, url string) {
			_, body, err := post(t, url, `{}`)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(body, "data: 1\n\ndata: {\"error\":{\"message\":\"full\""), body)
			require.NotContains(t, body, "[DONE]")
		})
	})
	t.Run("inside a plain answer", func(t *testing.T) {
		t.Parallel()
		s := &service{chat: func(_ *gatewayv1.ChatCompletionsRequest, w reply.Writer) error {
			_ = w.Head(&reply.Head{Status: 200, ContentType: "application/json", Length: 100})
			_ = w.Data([]byte("half"))
			return refused
		}}
		each(t, s, func(t *testing.T, url string) {
			resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{}`))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			require.Error(t, err, "half an answer must not look whole")
		})
	})
}

// TestEveryErrorOfMessagesIsAnthropics: also those that come before the request is looked at.
func TestEveryErrorOfMessagesIsAnthropics(t *testing.T) {
	t.Parallel()
	keys, err := admit.NewKeys([]admit.Key{{Name: "n", Key: "k"}}, time.Now)
	require.NoError(t, err)
	e, err := New(context.Background(), Config{MaxBodyBytes: 10}, Deps{
		Conn: NewConn(), Keys: keys, Telemetry: flight.New(slog.New(slog.DiscardHandler), nil, time.Now), Clock: time.Now,
	})
	require.NoError(t, err)
	for _, row := range []struct {
		method, path, key, kind, body string
		status                        int
		want                          string
	}{
		{"POST", "/v1/messages", "x", "application/json", "{}", 401, "authentication_error"},
		{"POST", "/v1/messages/", "x", "application/json", "{}", 401, "authentication_error"},
		{"POST", "/predictions/m/1/v1/messages", "x", "application/json", "{}", 401, "authentication_error"},
		{"GET", "/v1/messages", "k", "", "", 405, "invalid_request_error"},
		{"POST", "/v1/messages/nope", "k", "application/json", "{}", 404, "not_found_error"},
		{"POST", "/v1/messages", "k", "text/plain", "{}", 415, "invalid_request_error"},
		{"POST", "/v1/messages", "k", "application/json", "{          }", 413, "request_too_large"},
		{"POST", "/v1/messages/count_tokens", "k", "application/json", "", 400, "invalid_request_error"},
	} {
		q := httptest.NewRequest(row.method, row.path, strings.NewReader(row.body))
		q.Header.Set("X-Api-Key", row.key)
		q.Header.Set("Content-Type", row.kind)
		w := httptest.NewRecorder()
		e.ServeHTTP(w, q)
		require.Equal(t, row.status, w.Code, row)
		require.True(t, strings.HasPrefix(w.Body.String(), `{"type":"error","error":{"type":"`+row.want+`","message":"`), w.Body.String())
	}
}

// TestACancelledRequestNeverLooksAnswered: a client that has only closed its own direction still reads. It gets the error, the
// event or the broken connection that any other failure is.
func TestACancelledRequestNeverLooksAnswered(t *testing.T) {
	t.Parallel()
	gone := fault.New(faultv1.Reason_REASON_CANCELLED, "gone")
	begun := func(kind string) func(reply.Writer) error {
		return func(w reply.Writer) error {
			if err := w.Head(&reply.Head{Status: 200, ContentType: kind, Length: -1}); err != nil {
				return err
			}
			return w.Data([]byte("data: 1\n\n"))
		}
	}
	for name, row := range map[string]struct {
		before func(reply.Writer) error
		status int
		body   string
		cut    bool
	}{
		"nothing was out": {func(reply.Writer) error { return nil }, 499, `{"error":{"message":"The client went away.",`, false},
		"a stream":        {begun("text/event-stream"), 200, "data: 1\n\ndata: {\"error\":{\"message\":\"The client went away.\",", false},
		"a plain answer":  {begun("application/json"), 200, "data: 1\n\n", true},
	} {
		s := &service{chat: func(_ *gatewayv1.ChatCompletionsRequest, w reply.Writer) error {
			if err := row.before(w); err != nil {
				return err
			}
			return gone
		}}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, s, func(t *testing.T, url string) {
				resp, body, err := post(t, url, "{}")
				require.Equal(t, row.status, resp.StatusCode)
				require.Truef(t, strings.HasPrefix(body, row.body), body)
				require.Equal(t, row.cut, err != nil)
			})
		})
	}
}

func TestInterceptorsAroundTheService(t *testing.T) {
	t.Parallel()
	refuse := func(any, grpc.ServerStream, *grpc.StreamServerInfo, grpc.StreamHandler) error {
		return fault.New(faultv1.Reason_REASON_PERMISSION_DENIED, "no")
	}
	s := &service{chat: func(*gatewayv1.ChatCompletionsRequest, reply.Writer) error { return errors.New("unreachable") }}
	each(t, s, func(t *testing.T, url string) {
		resp, _, err := post(t, url, `{}`)
		require.NoError(t, err)
		require.Equal(t, 403, resp.StatusCode)
	}, refuse)
}

func TestMessagesOfOtherCode(t *testing.T) {
	t.Parallel()
	each(t, &service{}, func(t *testing.T, url string) {
		resp, err := http.Get(url + "/v1/models/a/b%20c")
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, 201, resp.StatusCode)
		require.Equal(t, "a/b c", string(b))
		require.Equal(t, "n", resp.Header.Get("X-Note"))
	})
}

func TestGuard(t *testing.T) {
	t.Parallel()
	s := &service{chat: func(_ *gatewayv1.ChatCompletionsRequest, w reply.Writer) error { return reply.OK(w, []byte("{}")) }}
	url := doors(t, s)["in process"]
	rows := []struct {
		name, method, path, kind, body string
		status                         int
		header                         [2]string
	}{
		{"unknown path", "POST", "/v1/nope", "application/json", "{}", 404, [2]string{}},
		{"wrong method", "GET", "/v1/chat/completions", "", "", 405, [2]string{"Allow", "POST"}},
		{"slash behind", "POST", "/v1/chat/completions/", "application/json", "{}", 200, [2]string{}},
		{"two slashes behind", "POST", "/v1/chat/completions//", "application/json", "{}", 404, [2]string{}},
		{"slash behind, wrong method", "GET", "/v1/chat/completions/", "", "", 405, [2]string{"Allow", "POST"}},
		{"health, slash behind", "GET", "/health/", "", "", 200, [2]string{}},
		{"nothing but a slash", "GET", "/", "", "", 404, [2]string{}},
		{"form", "POST", "/v1/chat/completions", "application/x-www-form-urlencoded", "a=b", 415, [2]string{}},
		{"no type", "POST", "/v1/chat/completions", "", "{}", 415, [2]string{}},
		{"charset", "POST", "/v1/chat/completions", "Application/JSON; charset=utf-8", "{}", 200, [2]string{}},
		{"empty", "POST", "/v1/chat/completions", "application/json", "", 400, [2]string{}},
		{"as large as allowed", "POST", "/v1/chat/completions", "application/json", strings.Repeat(" ", 998) + "{}", 200, [2]string{}},
		{"too large", "POST", "/v1/chat/completions", "application/json", strings.Repeat(" ", 999) + "{}", 413, [2]string{}},
		{"method override is not heard", "POST", "/v1/models", "application/json", "{}", 405, [2]string{"Allow", "GET"}},
		{"health", "GET", "/health", "", "", 200, [2]string{}},
		{"health by post", "POST", "/health", "", "", 405, [2]string{"Allow", "GET, HEAD"}},
		{"ping by post", "POST", "/ping", "", "", 200, [2]string{}},
		{"ping deleted", "DELETE", "/ping", "", "", 405, [2]string{"Allow", "GET, HEAD, POST"}},
		{"ready", "GET", "/ready", "", "", 200, [2]string{}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequest(row.method, url+row.path, strings.NewReader(row.body))
			require.NoError(t, err)
			if row.kind != "" {
				req.Header.Set("Content-Type", row.kind)
			}
			req.Header.Set("X-HTTP-Method-Override", "GET")
			req.Header.Set("Grpc-Timeout", "1n")
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, row.status, resp.StatusCode, string(b))
			require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
			if row.header[0] != "" {
				require.Equal(t, row.header[1], resp.Header.Get(row.header[0]))
			}
			if row.status >= 400 {
				require.Contains(t, string(b), `{"error":{"message":`)
			}
		})
	}
	t.Run("compressed", func(t *testing.T) {
		t.Parallel()
		for coding, want := range map[string]int{"gzip": 415, "deflate, gzip": 415, "Identity": 200} {
			req, err := http.NewRequest("POST", url+"/v1/chat/completions", strings.NewReader("{}"))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Content-Encoding", coding)
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			_ = resp.Body.Close()
			require.Equal(t, want, resp.StatusCode, coding)
		}
	})
	t.Run("chunked and too large", func(t *testing.T) {
		t.Parallel()
		req, err := http.NewRequest("POST", url+"/v1/chat/completions", io.MultiReader(strings.NewReader(strings.Repeat(" ", 1001))))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		_ = resp.Body.Close()
		require.Equal(t, 413, resp.StatusCode)
	})
}

func TestCORS(t *testing.T) {
	t.Parallel()
	url := doors(t, &service{})["in process"]
	ask := func(origin string) *http.Response {
		req, err := http.NewRequest("OPTIONS", url+"/v1/chat/completions", nil)
		require.NoError(t, err)
		req.Header.Set("Origin", origin)
		req.Header.Set("Access-Control-Request-Method", "POST")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		_ = resp.Body.Close()
		return resp
	}
	resp := ask("https://a.example")
	require.Equal(t, 204, resp.StatusCode)
	require.Equal(t, "https://a.example", resp.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "Origin", resp.Header.Get("Vary"))
	resp = ask("https://b.example")
	require.Equal(t, 405, resp.StatusCode)
	require.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	for id, kept := range map[string]bool{
		"trace-me-17": true, "a.b_c:d": true, "": false, "a b": false, "ü": false, strings.Repeat("x", 129): false, "a\"b": false,
	} {
		got := requestID(http.Header{"X-Request-Id": {id}})
		require.Equal(t, kept, got == id, id)
		require.True(t, inbound.PlainID(got))
	}
	require.NotEqual(t, NewID(), NewID())
}

func TestOldPath(t *testing.T) {
	t.Parallel()
	rows := []struct{ in, path, model string }{
		{"/predictions/m/1.0/v1/chat/completions", "/v1/chat/completions", "m"},
		{"/predictions/m/v1/chat/completions", "/v1/chat/completions", "m"},
		{"/predictions/m/v1/v1/models", "/v1/models", "m"},
		{"/predictions/m", "/predictions/m", ""},
		{"/predictions//1.0/v1/models", "/predictions//1.0/v1/models", ""},
		{"/v1/models", "/v1/models", ""},
		{"/predictions/org%2Fm/1.0/v1/completions", "/v1/completions", "org/m"},
		{"/predictions/org/m/1.0/v1/completions", "/1.0/v1/completions", "org"},
		{"/predictions/m/1.0/v1/models/org%2Fm", "/v1/models/org/m", "m"},
		{"/predictions/m/1.0/v1/models/", "/v1/models", "m"},
		{"/predictions/a%20b/1/v1/models", "/v1/models", "a b"},
	}
	for _, row := range rows {
		u, err := url.Parse(row.in)
		require.NoError(t, err)
		path, model := oldPath(u)
		require.Equal(t, row.path, path, row.in)
		require.Equal(t, row.model, model, row.in)
	}
}

// TestRoutesComeFromTheProtos: every operation is found, at every one of its paths.
func TestRoutesComeFromTheProtos(t *testing.T) {
	t.Parallel()
	e := &Edge{routes: routes()}
	for path, method := range map[string]string{
		"/v1/chat/completions": "POST", "/v1/models": "GET", "/v1/models/a": "GET", "/v1/models/a/b/c": "GET", "/v2/rerank": "POST", "/score": "POST",
		"/v1/responses/r1": "GET", "/v1/responses/r1/cancel": "POST", "/kvmesh/v1/receipts/x": "GET", "/v1/audio/translations": "POST",
	} {
		r, _ := e.find(method, path)
		require.NotNil(t, r, path)
		require.Equal(t, strings.HasPrefix(path, "/v1/audio"), r.form)
		r, allowed := e.find("DELETE", path)
		require.Nil(t, r)
		require.Contains(t, allowed, method)
	}
	for _, path := range []string{"/", "/v1", "/v1/models/", "/v1/responses/", "/v1/responses/a/b", "/v1/chat/completions/", "/kvmesh/v1/receipts/a/b"} {
		r, allowed := e.find("GET", path)
		require.Nil(t, r, path)
		require.Empty(t, allowed, path)
	}
}

func TestUnaryCallsAreRefused(t *testing.T) {
	t.Parallel()
	require.Error(t, NewConn().Invoke(context.Background(), "/x/Y", nil, nil))
	_, err := NewConn().NewStream(context.Background(), nil, "/x/Y")
	require.Error(t, err)
}
