package rpc_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

func goexit() { runtime.Goexit() }

// TestStopFinishesRunningCalls: a call that runs when the server stops is answered; later calls are refused.
func TestStopFinishesRunningCalls(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		entered, release := make(chan struct{}), make(chan struct{})
		e.unary = func(context.Context, *text) (*text, error) {
			close(entered)
			<-release
			return say("done"), nil
		}
		result := make(chan error, 1)
		go func() {
			_, err := callUnary(shortly(t), b.conn, "")
			result <- err
		}()
		kittest.Closed(t, entered)
		stopped := make(chan error, 1)
		go func() { stopped <- b.srv.Stop(shortly(t)) }()
		kittest.Eventually(t, func() error { // until the server refuses
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := b.conn.Invoke(ctx, "/grpc.health.v1.Health/Check", say(""), new(text)); fault.ReasonOf(err) !=
				faultv1.Reason_REASON_UNAVAILABLE {
				return errors.New("the server still answers")
			}
			close(release)
			return nil
		})
		require.NoError(t, kittest.Recv(t, result))
		require.NoError(t, kittest.Recv(t, stopped))
		require.NoError(t, b.srv.Stop(shortly(t)), "stopping twice is allowed")
	})
}

// TestStopCutsEndlessCalls: after their time running calls are cancelled and their callers told.
func TestStopCutsEndlessCalls(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		e.server = func(_ *text, s grpc.ServerStream) error {
			if err := s.SendMsg(say("on")); err != nil {
				return err
			}
			<-s.Context().Done()
			return s.Context().Err()
		}
		s, err := openServer(shortly(t), b.conn, "")
		require.NoError(t, err)
		_, err = recvText(s)
		require.NoError(t, err)
		over, cancel := context.WithCancel(t.Context())
		cancel() // the grace has passed
		require.ErrorContains(t, b.srv.Stop(over), "1 calls at "+b.srv.Addr()+" were cut")
		_, err = recvText(s)
		require.Equal(t, faultv1.Reason_REASON_UNAVAILABLE, fault.ReasonOf(err))
	})
}

func TestHealthFollowsReady(t *testing.T) {
	t.Parallel()
	for _, d := range doors() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			sc, cc := d.server(t)
			sc.HealthEvery = 10 * time.Millisecond
			network := rpc.NewNetwork()
			srv, err := rpc.NewServer(sc, rpc.ServerDeps{Log: kittest.Logger(t), Network: network})
			require.NoError(t, err)
			var ready atomic.Bool
			srv.SetReady(func(context.Context) error {
				if !ready.Load() {
					return errors.New("loading")
				}
				return nil
			})
			require.NoError(t, srv.Start(t.Context()))
			conn, err := rpc.Dial(srv.Addr(), cc, rpc.ClientDeps{Network: network})
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			require.Error(t, rpc.HealthCheck(shortly(t), conn))
			ready.Store(true)
			kittest.Eventually(t, func() error { return rpc.HealthCheck(shortly(t), conn) })
			ready.Store(false)
			kittest.Eventually(t, func() error {
				if rpc.HealthCheck(shortly(t), conn) == nil {
					return errors.New("still healthy")
				}
				return nil
			})
			require.NoError(t, srv.Stop(shortly(t)))
		})
	}
}

// TestDeadlines runs in a bubble: every caller's deadline shrinks by 20 ms, and hopeless calls are refused and counted.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		e := &echo{}
		network := rpc.NewNetwork()
		kittest.Serve(t, rpc.ServerConfig{Address: "mem://d"}, rpc.ServerDeps{Network: network, Registerer: reg}, e.register)
		conn := kittest.Dial(t, "mem://d", network)
		var left time.Duration
		e.unary = func(ctx context.Context, in *text) (*text, error) {
			due, has := ctx.Deadline()
			left = time.Until(due)
			if !has {
				left = -1
			}
			if in.GetValue() == "wait" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return say(""), nil
		}
		call := func(d time.Duration, in string) error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			_, err := callUnary(ctx, conn, in)
			return err
		}
		require.NoError(t, call(time.Second, ""))
		require.Equal(t, 980*time.Millisecond, left)
		require.NoError(t, call(50*time.Millisecond, ""))
		require.Equal(t, faultv1.Reason_REASON_DEADLINE_EXCEEDED, fault.ReasonOf(call(49*time.Millisecond, "")))
		require.Equal(t, faultv1.Reason_REASON_DEADLINE_EXCEEDED, fault.ReasonOf(call(time.Second, "wait")))
		_, err := callUnary(t.Context(), conn, "")
		require.NoError(t, err)
		require.Equal(t, time.Duration(-1), left, "no deadline stays none")

		limited, err := rpc.Dial("mem://d", rpc.ClientConfig{Timeout: time.Minute}, rpc.ClientDeps{Network: network})
		require.NoError(t, err)
		_, err = callUnary(t.Context(), limited, "")
		require.NoError(t, err)
		require.Equal(t, time.Minute-20*time.Millisecond, left)

		counts, err := testutil.GatherAndCount(reg, "kvmesh_rpc_server_deadline_refused_total")
		require.NoError(t, err)
		require.Equal(t, 1, counts)
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	e := &echo{unary: func(_ context.Context, in *text) (*text, error) {
		switch in.GetValue() {
		case "bad":
			return nil, fault.New(faultv1.Reason_REASON_NO_WORKER, "x")
		case "panic":
			panic("x")
		}
		return say(""), nil
	}}
	b := open(t, doors()[0], rpc.ServerDeps{Registerer: reg}, e)
	second := open(t, doors()[0], rpc.ServerDeps{Registerer: reg}, e) // shares the collectors
	for _, in := range []string{"", "bad", "panic", "bad"} {
		_, _ = callUnary(shortly(t), b.conn, in)
	}
	_, err := callUnary(shortly(t), second.conn, "")
	require.NoError(t, err)
	got := map[string]float64{}
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["method"] != methodUnary {
				continue
			}
			switch f.GetName() {
			case "kvmesh_rpc_server_calls_total":
				got[labels["reason"]] = m.GetCounter().GetValue()
			case "kvmesh_rpc_server_seconds":
				got["seconds"] = float64(m.GetHistogram().GetSampleCount())
			case "kvmesh_rpc_server_running":
				got["running"] = m.GetGauge().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{"OK": 2, "NO_WORKER": 2, "INTERNAL": 1, "seconds": 5, "running": 0}, got)
}

func TestAddressTaken(t *testing.T) {
	t.Parallel()
	for _, d := range doors() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			e := &echo{}
			b := open(t, d, rpc.ServerDeps{}, e)
			second, err := rpc.NewServer(rpc.ServerConfig{Address: b.srv.Addr()},
				rpc.ServerDeps{Log: kittest.Logger(t), Network: b.net})
			require.NoError(t, err)
			err = second.Start(shortly(t))
			require.Equal(t, faultv1.Reason_REASON_UNAVAILABLE, fault.ReasonOf(err))
			require.ErrorContains(t, err, b.srv.Addr())
			require.ErrorContains(t, err, "taken")
			require.NoError(t, second.Stop(shortly(t)))
		})
	}
}

func TestDeadSocketIsReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", path)
	require.NoError(t, err)
	lis.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, lis.Close())
	lis, err = rpc.Listen("unix://" + path)
	require.NoError(t, err)
	require.NoError(t, lis.Close())

	require.NoError(t, os.WriteFile(path, []byte("no socket"), 0o600))
	_, err = rpc.Listen("unix://" + path)
	require.Error(t, err, "a plain file is not ours to delete")
}

// TestMemWaitsForFirstServer: a client may come before its server; once the server has left, calls fail unless told to
// wait.
func TestMemWaitsForFirstServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := rpc.NewNetwork()
		conn := kittest.Dial(t, "mem://late", network)
		patient, err := rpc.Dial("mem://late", rpc.ClientConfig{WaitForReady: true}, rpc.ClientDeps{Network: network})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = callUnary(ctx, conn, "")
		require.Equal(t, faultv1.Reason_REASON_DEADLINE_EXCEEDED, fault.ReasonOf(err))

		results := make(chan error, 1)
		call := func(c rpc.Conn) {
			_, err := callUnary(t.Context(), c, "")
			results <- err
		}
		serve := func() *rpc.Server {
			e := &echo{unary: func(context.Context, *text) (*text, error) { return say(""), nil }}
			return kittest.Serve(t, rpc.ServerConfig{Address: "mem://late"}, rpc.ServerDeps{Network: network}, e.register)
		}
		go call(conn)
		synctest.Wait()
		require.Empty(t, results)
		srv := serve()
		require.NoError(t, <-results)

		require.NoError(t, srv.Stop(t.Context()))
		go call(conn)
		require.Equal(t, faultv1.Reason_REASON_UNAVAILABLE, fault.ReasonOf(<-results))
		go call(patient)
		synctest.Wait()
		require.Empty(t, results)
		serve()
		require.NoError(t, <-results)

		require.NoError(t, patient.Close())
		go call(patient)
		require.Equal(t, faultv1.Reason_REASON_CANCELLED, fault.ReasonOf(<-results))
	})
}

// TestUnreadyIsAskedOften: a server that becomes ready is served at once, however rarely a ready one is asked.
func TestUnreadyIsAskedOften(t *testing.T) {
	t.Parallel()
	e := &echo{unary: func(context.Context, *text) (*text, error) { return say(""), nil }}
	srv, err := rpc.NewServer(rpc.ServerConfig{Address: "tcp://127.0.0.1:0", HealthEvery: time.Hour},
		rpc.ServerDeps{Log: kittest.Logger(t)})
	require.NoError(t, err)
	e.register(srv)
	var asked atomic.Int32
	srv.SetReady(func(context.Context) error {
		if asked.Add(1) > 2 {
			return nil
		}
		return errors.New("loading")
	})
	require.NoError(t, srv.Start(t.Context()))
	conn := kittest.Dial(t, srv.Addr(), nil)
	kittest.Eventually(t, func() error {
		_, err := callUnary(shortly(t), conn, "")
		return err
	})
	require.EqualValues(t, 3, asked.Load(), "a ready server is not asked again before its time")
	require.NoError(t, srv.Stop(shortly(t)))
}

// TestClientsAvoidUnready: a tcp:// client sends nothing to a server whose health says no.
func TestClientsAvoidUnready(t *testing.T) {
	t.Parallel()
	e := &echo{unary: func(context.Context, *text) (*text, error) { return say(""), nil }}
	srv, err := rpc.NewServer(rpc.ServerConfig{Address: "tcp://127.0.0.1:0", HealthEvery: 10 * time.Millisecond},
		rpc.ServerDeps{Log: kittest.Logger(t)})
	require.NoError(t, err)
	e.register(srv)
	var ready atomic.Bool
	srv.SetReady(func(context.Context) error {
		if ready.Load() {
			return nil
		}
		return errors.New("loading")
	})
	require.NoError(t, srv.Start(t.Context()))
	conn := kittest.Dial(t, srv.Addr(), nil)
	patient, err := rpc.Dial(srv.Addr(), rpc.ClientConfig{WaitForReady: true}, rpc.ClientDeps{})
	require.NoError(t, err)
	defer func() { require.NoError(t, patient.Close()) }()
	_, err = callUnary(shortly(t), conn, "")
	require.Equal(t, faultv1.Reason_REASON_UNAVAILABLE, fault.ReasonOf(err))
	waited := make(chan error, 1)
	go func() {
		_, err := callUnary(shortly(t), patient, "")
		waited <- err
	}()
	ready.Store(true)
	require.NoError(t, kittest.Recv(t, waited))
	kittest.Eventually(t, func() error {
		_, err := callUnary(shortly(t), conn, "")
		return err
	})
	require.NoError(t, srv.Stop(shortly(t)))
}

// TestTracesContinue: the server's span is a child of the caller's, through every door, and what the handler calls next
// carries the server's span.
func TestTracesContinue(t *testing.T) {
	t.Parallel()
	for _, d := range doors() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			spans := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
			e := &echo{unary: func(ctx context.Context, _ *text) (*text, error) {
				return say(trace.SpanContextFromContext(ctx).SpanID().String()), nil
			}}
			b := open(t, d, rpc.ServerDeps{Tracer: provider}, e)
			ctx, client := provider.Tracer("test").Start(shortly(t), "client")
			inside, err := callUnary(ctx, b.conn, "")
			require.NoError(t, err)
			client.End()
			require.NoError(t, b.srv.Stop(shortly(t))) // a wire's server ends its span after the answer
			var server sdktrace.ReadOnlySpan
			for _, s := range spans.Ended() {
				if s.Name() == methodUnary {
					server = s
				}
			}
			require.NotNil(t, server)
			require.Equal(t, client.SpanContext().SpanID(), server.Parent().SpanID())
			require.Equal(t, client.SpanContext().TraceID(), server.SpanContext().TraceID())
			require.Equal(t, server.SpanContext().SpanID().String(), inside)
		})
	}
}

func TestServerStress(t *testing.T) {
	t.Parallel()
	v, err := rpc.NewValidator() // making one takes longer than the rest of a server
	require.NoError(t, err)
	for _, d := range doors()[:3] {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			kittest.StressStartStop(t, func() kittest.StartStopper {
				sc, _ := d.server(t)
				srv, err := rpc.NewServer(sc, rpc.ServerDeps{Log: kittest.Logger(t), Network: rpc.NewNetwork(), Validator: v})
				require.NoError(t, err)
				return srv
			})
		})
	}
}
