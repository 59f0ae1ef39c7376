package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

func TestUnaryAnswers(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		e.unary = func(_ context.Context, in *text) (*text, error) { return say("re: " + in.GetValue()), nil }
		got, err := callUnary(shortly(t), b.conn, "hello")
		require.NoError(t, err)
		require.Equal(t, "re: hello", got)
	})
}

// TestErrorsAreEqualThroughEveryDoor is what lets a mesh in one process stand for one of many.
func TestErrorsAreEqualThroughEveryDoor(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		fail error
		want fault.Error
	}{
		"fault": {
			fault.Wrap(faultv1.Reason_REASON_OVERLOADED, io.EOF, "queue full").WithRetryAfter(2 * time.Second).WithParam("n"),
			fault.Error{Reason: faultv1.Reason_REASON_OVERLOADED, Message: "queue full", RetryAfter: 2 * time.Second, Param: "n"},
		},
		"wrapped fault": {
			fmt.Errorf("while routing: %w", fault.New(faultv1.Reason_REASON_NO_WORKER, "none")),
			fault.Error{Reason: faultv1.Reason_REASON_NO_WORKER, Message: "none"},
		},
		"any error": {
			errors.New("password=hunter2"), fault.Error{Reason: faultv1.Reason_REASON_INTERNAL, Message: "internal error"},
		},
		"internal fault": {
			fault.New(faultv1.Reason_REASON_INTERNAL, "secret"),
			fault.Error{Reason: faultv1.Reason_REASON_INTERNAL, Message: "internal error"},
		},
		"status": {
			status.Error(codes.NotFound, "gone"), fault.Error{Reason: faultv1.Reason_REASON_NOT_FOUND, Message: "gone"},
		},
	}
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		e.unary = func(_ context.Context, in *text) (*text, error) { return nil, rows[in.GetValue()].fail }
		for name, row := range rows {
			_, err := callUnary(shortly(t), b.conn, name)
			var got *fault.Error
			require.ErrorAs(t, err, &got, name)
			require.Empty(t, cmp.Diff(row.want, *got, cmpopts.IgnoreUnexported(fault.Error{})), name)
			require.Equal(t, fault.Code(row.want.Reason), status.Code(err))
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), "secret")
		}
	})
}

func TestUnknownMethod(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, _ *echo, b bundle) {
		err := b.conn.Invoke(shortly(t), "/test.Echo/Nothing", say(""), new(text))
		require.Equal(t, faultv1.Reason_REASON_METHOD_NOT_ALLOWED, fault.ReasonOf(err))
	})
}

func TestPanicIsInternal(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		e.unary = func(context.Context, *text) (*text, error) { panic("secret") }
		e.server = func(*text, grpc.ServerStream) error { panic("secret") }
		_, err := callUnary(shortly(t), b.conn, "")
		require.Equal(t, faultv1.Reason_REASON_INTERNAL, fault.ReasonOf(err))
		require.NotContains(t, err.Error(), "secret")
		s, err := openServer(shortly(t), b.conn, "")
		require.NoError(t, err)
		_, err = recvText(s)
		require.Equal(t, faultv1.Reason_REASON_INTERNAL, fault.ReasonOf(err))
	})
}

func TestValidation(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		e.encode = func(_ context.Context, in *tokenizerv1.EncodeRequest) (*tokenizerv1.EncodeResponse, error) {
			return &tokenizerv1.EncodeResponse{TokenCount: uint32(len(in.GetText()))}, nil
		}
		out := new(tokenizerv1.EncodeResponse)
		in := &tokenizerv1.EncodeRequest{Model: "m", Text: []byte("four")}
		require.NoError(t, b.conn.Invoke(shortly(t), methodEncode, in, out))
		require.Equal(t, uint32(4), out.GetTokenCount())

		in = &tokenizerv1.EncodeRequest{Model: "m", Salting: &tokenizerv1.Salting{LoraName: strings.Repeat("secret", 999)}}
		f := fault.From(b.conn.Invoke(shortly(t), methodEncode, in, out))
		require.Equal(t, faultv1.Reason_REASON_INVALID_REQUEST, f.Reason)
		require.Equal(t, "salting.lora_name", f.Param)
		require.NotContains(t, f.Message, "secret")
	})
}

// TestMetadata: the allow-list travels, from the caller's own metadata or from the call that it serves; nothing else.
func TestMetadata(t *testing.T) {
	t.Parallel()
	for _, d := range doors() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			e := &echo{}
			b := open(t, d, rpc.ServerDeps{}, e)
			var got metadata.MD
			var value any
			type key struct{}
			e.unary = func(ctx context.Context, _ *text) (*text, error) {
				got, _ = metadata.FromIncomingContext(ctx)
				value = ctx.Value(key{})
				if out, ok := metadata.FromOutgoingContext(ctx); ok {
					return nil, fmt.Errorf("outgoing metadata %v in a handler", out)
				}
				if rpc.RequestID(ctx) != "r1" {
					return nil, fmt.Errorf("request id %q", rpc.RequestID(ctx))
				}
				return say(""), nil
			}
			cfg := b.client
			cfg.Metadata = []string{"x-tenant"}
			conn, err := rpc.Dial(b.srv.Addr(), cfg, rpc.ClientDeps{Network: b.net})
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()

			ctx := metadata.AppendToOutgoingContext(shortly(t), "authorization", "Bearer secret", "x-tenant", "t", "x-other", "o")
			_, err = callUnary(context.WithValue(rpc.WithRequestID(ctx, "r1"), key{}, 1), conn, "")
			require.NoError(t, err)
			require.Equal(t, []string{"t"}, got.Get("x-tenant"))
			require.Empty(t, got.Get("authorization"))
			require.Empty(t, got.Get("x-other"))
			require.Nil(t, value)

			serving := metadata.NewIncomingContext(shortly(t),
				metadata.Pairs("x-request-id", "r1", "traceparent", "tp", "authorization", "secret", "x-tenant", "t"))
			_, err = callUnary(serving, conn, "")
			require.NoError(t, err)
			require.Equal(t, []string{"tp"}, got.Get("traceparent"))
			require.Empty(t, got.Get("authorization"))
			require.Empty(t, got.Get("x-tenant"), "only the caller's own")
		})
	}
}

func TestHeadersTrailersPeer(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		e.unary = func(ctx context.Context, _ *text) (*text, error) {
			p, ok := peer.FromContext(ctx)
			if !ok || p.Addr == nil {
				return nil, errors.New("no peer")
			}
			return say(""), errors.Join(
				grpc.SetHeader(ctx, metadata.Pairs("a", "1")),
				grpc.SendHeader(ctx, metadata.Pairs("a", "2")),
				grpc.SetTrailer(ctx, metadata.Pairs("b", "3")),
				mustFail(grpc.SetHeader(ctx, metadata.Pairs("late", "1"))),
			)
		}
		var header, trailer metadata.MD
		var p peer.Peer
		finished := make(chan error, 1)
		_, err := callUnary(shortly(t), b.conn, "", grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&p),
			grpc.OnFinish(func(err error) { finished <- err }))
		require.NoError(t, err)
		require.Equal(t, []string{"1", "2"}, header.Get("a"))
		require.Equal(t, []string{"3"}, trailer.Get("b"))
		require.NotNil(t, p.Addr)
		require.NoError(t, kittest.Recv(t, finished))
	})
}

func mustFail(err error) error {
	if err == nil {
		return errors.New("no failure")
	}
	return nil
}

func TestCancelReachesHandler(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		ctx, cancel := context.WithCancel(shortly(t))
		saw := make(chan error, 1)
		e.unary = func(ctx context.Context, _ *text) (*text, error) {
			cancel()
			<-ctx.Done()
			saw <- ctx.Err()
			return nil, ctx.Err()
		}
		_, err := callUnary(ctx, b.conn, "")
		require.Equal(t, faultv1.Reason_REASON_CANCELLED, fault.ReasonOf(err))
		require.ErrorIs(t, kittest.Recv(t, saw), context.Canceled)

		_, err = callUnary(ctx, b.conn, "") // already over
		require.Equal(t, faultv1.Reason_REASON_CANCELLED, fault.ReasonOf(err))
	})
}

func TestMessageTooLarge(t *testing.T) {
	t.Parallel()
	for _, d := range doors() {
		if d.mem {
			continue // nothing is serialised, so nothing has a size
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			e := &echo{unary: func(context.Context, *text) (*text, error) { return say(""), nil }}
			sc, cc := d.server(t)
			sc.MaxRecv = 1000
			srv := kittest.Serve(t, sc, rpc.ServerDeps{}, e.register)
			conn, err := rpc.Dial(srv.Addr(), cc, rpc.ClientDeps{})
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			_, err = callUnary(shortly(t), conn, strings.Repeat("x", 2000))
			require.Equal(t, faultv1.Reason_REASON_TOO_LARGE, fault.ReasonOf(err))
		})
	}
}
