package gateway_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"

	"github.com/kvmesh/kvmesh/gateway"
)

// traced is a gateway with a tracer, in front of a worker that keeps the header lines it got.
func traced(t *testing.T, tracer trace.TracerProvider, log io.Writer) (http.Handler, <-chan http.Header) {
	t.Helper()
	got := make(chan http.Header, 1)
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[]}`)
	}))
	t.Cleanup(worker.Close)
	g, err := gateway.New(context.Background(), gateway.Config{}, gateway.Deps{
		Log: slog.New(slog.NewTextHandler(log, nil)), Tracer: tracer,
		Template: templates{}, Tokenizer: tokenizers{}, Scheduler: services{url: worker.URL},
	})
	require.NoError(t, err)
	return g.Handler(), got
}

// chatWith sends a chat with header lines, pairs of name and value.
func chatWith(h http.Handler, lines ...string) *httptest.ResponseRecorder {
	q := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"messages":[{"role":"user","content":"x"}]}`))
	q.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(lines); i += 2 {
		q.Header.Set(lines[i], lines[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	return w
}

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

// TestTheSpanStandsBetween: with a tracer the worker's parent is the gateway's span, whose parent is the client's.
func TestTheSpanStandsBetween(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ parent, trace string }{
		"of a client":  {"00-" + traceID + "-" + spanID + "-01", traceID},
		"of nobody":    {"", ""},
		"of nonsense":  {"00-zz-yy-01", ""},
		"of all zeros": {"00-00000000000000000000000000000000-0000000000000000-01", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans := tracetest.NewSpanRecorder()
			h, got := traced(t, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), io.Discard)
			require.Equal(t, http.StatusOK, chatWith(h, "Traceparent", row.parent, "Tracestate", "vendor=1").Code)
			require.Len(t, spans.Ended(), 1)
			span := spans.Ended()[0]
			require.Equal(t, "chat_completions", span.Name())
			own := span.SpanContext()
			seen := <-got
			require.Equal(t, []string{"00-" + own.TraceID().String() + "-" + own.SpanID().String() + "-01"}, seen["Traceparent"])
			if row.trace == "" {
				require.False(t, span.Parent().IsValid())
				return
			}
			require.Equal(t, row.trace, own.TraceID().String())
			require.Equal(t, spanID, span.Parent().SpanID().String())
			require.Equal(t, []string{"vendor=1"}, seen["Tracestate"])
		})
	}
}

// TestWithoutATracerTheContextPasses: byte for byte, whatever it says.
func TestWithoutATracerTheContextPasses(t *testing.T) {
	t.Parallel()
	for _, tracer := range []trace.TracerProvider{nil, noop.NewTracerProvider()} {
		h, got := traced(t, tracer, io.Discard)
		for _, parent := range []string{"00-" + traceID + "-" + spanID + "-01", "odd"} {
			require.Equal(t, http.StatusOK, chatWith(h, "Traceparent", parent).Code)
			require.Equal(t, []string{parent}, (<-got)["Traceparent"])
		}
	}
}

// asked is services that keep what they were asked to route.
type asked struct {
	services
	got chan *schedulerv1.RouteRequest
}

func (a asked) Route(ctx context.Context, q *schedulerv1.RouteRequest, o ...grpc.CallOption) (*schedulerv1.RouteResponse, error) {
	a.got <- q
	return a.services.Route(ctx, q, o...)
}

// TestHeaderLinesThatVLLMReads decide the route as they decide at the worker.
func TestHeaderLinesThatVLLMReads(t *testing.T) {
	t.Parallel()
	a := asked{got: make(chan *schedulerv1.RouteRequest, 1)}
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[]}`)
	}))
	t.Cleanup(worker.Close) // closes the connections that the gateway keeps, too
	a.url = worker.URL
	g, err := gateway.New(context.Background(), gateway.Config{}, gateway.Deps{
		Log: slog.New(slog.DiscardHandler), Template: templates{}, Tokenizer: tokenizers{}, Scheduler: a,
	})
	require.NoError(t, err)
	for _, row := range []struct {
		members, priority, session string
		wantPriority               int32
		wantSession                string
	}{
		{"", "", "", 0, ""},
		{`,"priority":3,"session_id":"body"`, "", "", 3, "body"},
		{"", "-7", "line", -7, "line"},
		{`,"priority":3,"session_id":"body"`, "5", "line", 5, "body"},
		{`,"priority":3`, "soon", "", 3, ""},
		{`,"priority":3`, "99999999999", "", 3, ""},
	} {
		q := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"messages":[{"role":"user"}]`+row.members+`}`))
		q.Header = http.Header{"Content-Type": {"application/json"}, "X-Vllm-Priority": {row.priority}, "X-Session-Id": {row.session}}
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, q)
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		got := <-a.got
		require.Equal(t, row.wantPriority, got.GetPriority(), row)
		require.Equal(t, row.wantSession, got.GetSession(), row)
	}
}

// panicking is a tracer with a fault of its own.
type panicking struct{ noop.TracerProvider }

func (panicking) Tracer(string, ...trace.TracerOption) trace.Tracer { panic("inner secret") }

// TestAPanicIsOneRequests: it is answered with a fixed text, its cause is in the log, and the next request has an answer too.
func TestAPanicIsOneRequests(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h, _ := traced(t, &panicking{}, &log)
	for range 2 {
		w := chatWith(h, "X-Request-Id", "r-1")
		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.JSONEq(t, `{"error":{"message":"The server had an error while processing the request.","type":"server_error",`+
			`"param":null,"code":"internal_error"}}`, w.Body.String())
	}
	require.Contains(t, log.String(), `panic="inner secret"`)
	require.Contains(t, log.String(), "request_id=r-1")
}
