package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// seen is all that a call shows: to its caller, its handler, the metrics and the log.
type seen struct {
	Tokens   uint32
	Reason   faultv1.Reason
	Message  string
	Left     time.Duration // of the deadline, in the handler, to the second
	Incoming metadata.MD
	Method   string
	Metrics  string
	Log      string
}

// TestDirectIsTheChain makes the same calls to a server that runs unary calls in one function and to one that a further
// interceptor keeps on the chain: nobody can tell them apart.
func TestDirectIsTheChain(t *testing.T) {
	t.Parallel()
	pass := rpc.Interceptor{
		Name: "pass",
		Unary: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			return h(ctx, req)
		},
		Stream: func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			return h(srv, ss)
		},
	}
	good := &tokenizerv1.EncodeRequest{Model: "m", Text: []byte("four")}
	for _, row := range []struct {
		name    string
		timeout time.Duration // of the caller
		own     time.Duration // of the connection
		in      *tokenizerv1.EncodeRequest
		handle  func(context.Context) error
	}{
		{name: "answer", in: good},
		{name: "answer within a deadline", in: good, timeout: time.Minute},
		{name: "answer within the connection's deadline", in: good, own: time.Minute},
		{name: "caller's deadline before the connection's", in: good, own: time.Minute, timeout: 20 * time.Second},
		{name: "hopeless deadline", in: good, timeout: 40 * time.Millisecond},
		{name: "hopeless deadline of the connection", in: good, own: 40 * time.Millisecond},
		{name: "invalid request", in: &tokenizerv1.EncodeRequest{}},
		{name: "fault", in: good, handle: func(context.Context) error {
			return fault.New(faultv1.Reason_REASON_OVERLOADED, "full")
		}},
		{name: "other error", in: good, handle: func(context.Context) error { return errors.New("secret") }},
		{name: "panic", in: good, handle: func(context.Context) error { panic("secret") }},
		{name: "panic with nil", in: good, handle: func(context.Context) error { panic(nil) }},
		{name: "end of its own context", in: good, handle: func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			watch := func(extra ...rpc.Interceptor) seen {
				var log bytes.Buffer
				reg := prometheus.NewRegistry()
				var out seen
				e := &echo{encode: func(ctx context.Context, in *tokenizerv1.EncodeRequest) (*tokenizerv1.EncodeResponse, error) {
					require.NotSame(t, row.in, in)
					if due, has := ctx.Deadline(); has {
						out.Left = time.Until(due).Round(time.Second)
					}
					out.Incoming, _ = metadata.FromIncomingContext(ctx)
					out.Method, _ = grpc.Method(ctx)
					if row.handle != nil {
						if err := row.handle(ctx); err != nil {
							return nil, err
						}
					}
					return &tokenizerv1.EncodeResponse{TokenCount: uint32(len(in.GetText()))}, nil
				}}
				b := open(t, doors()[0], rpc.ServerDeps{
					Log: slog.New(slog.NewTextHandler(&log, nil)), Registerer: reg, Interceptors: extra,
				}, e)
				conn, err := rpc.Dial(b.srv.Addr(), rpc.ClientConfig{Timeout: row.own}, rpc.ClientDeps{Network: b.net})
				require.NoError(t, err)
				ctx := rpc.WithRequestID(t.Context(), "r1")
				if row.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, row.timeout)
					defer cancel()
				}
				resp := &tokenizerv1.EncodeResponse{}
				if err := conn.Invoke(ctx, methodEncode, row.in, resp); err != nil {
					f := fault.From(err)
					out.Reason, out.Message = f.Reason, f.Message
				}
				out.Tokens, out.Metrics, out.Log = resp.GetTokenCount(), counts(t, reg), plain(log.String())
				return out
			}
			require.Equal(t, watch(pass), watch())
		})
	}
}

// counts is a registry's text without times: how often and how, but not how long.
func counts(t *testing.T, reg prometheus.Gatherer) string {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			n := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			out = append(out, fmt.Sprint(f.GetName(), m.GetLabel(), n))
		}
	}
	return strings.Join(out, "\n")
}

// plain is a log without times and stacks.
func plain(log string) string {
	log = regexp.MustCompile(`time=\S+ `).ReplaceAllString(log, "")
	return regexp.MustCompile(`stack="(\\.|[^"\\])*"`).ReplaceAllString(log, "stack")
}
