package rpc_test

import (
	"context"
	"log/slog"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// benchServer serves e with everything switched on that a production server has.
func benchServer(b *testing.B, address string, register func(grpc.ServiceRegistrar)) rpc.Conn {
	b.Helper()
	network := rpc.NewNetwork()
	srv, err := rpc.NewServer(rpc.ServerConfig{Address: address}, rpc.ServerDeps{
		Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Network: network,
	})
	if err != nil {
		b.Fatal(err)
	}
	register(srv)
	if err := srv.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	conn, err := rpc.Dial(srv.Addr(), rpc.ClientConfig{}, rpc.ClientDeps{Network: network})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Close()
		_ = srv.Stop(context.Background())
	})
	return conn
}

// reportCPU adds the process's CPU time per operation: wall time says little on a machine with neighbours.
func reportCPU(b *testing.B) func() {
	b.Helper()
	cpu := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := cpu()
	return func() { b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkUnary is a call with a small message, request id and deadline, through all interceptors.
func BenchmarkUnary(b *testing.B) {
	for _, address := range []string{"mem://bench", "unix://" + b.TempDir() + "/s", "tcp://127.0.0.1:0"} {
		for _, deadline := range []bool{false, true} {
			b.Run(address[:3]+map[bool]string{true: "/deadline", false: ""}[deadline], func(b *testing.B) {
				out := &tokenizerv1.EncodeResponse{TokenCount: 1}
				e := &echo{encode: func(context.Context, *tokenizerv1.EncodeRequest) (*tokenizerv1.EncodeResponse, error) {
					return out, nil
				}}
				conn := benchServer(b, address, e.register)
				in := &tokenizerv1.EncodeRequest{Model: "m", Text: []byte("text"), Salting: &tokenizerv1.Salting{LoraName: "a"}}
				ctx := rpc.WithRequestID(b.Context(), "request-1")
				if deadline {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 1<<40)
					defer cancel()
				}
				b.ReportAllocs()
				defer reportCPU(b)()
				for b.Loop() {
					if err := conn.Invoke(ctx, methodEncode, in, new(tokenizerv1.EncodeResponse)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkStream is one message of a server stream.
func BenchmarkStream(b *testing.B) {
	for _, address := range []string{"mem://bench", "tcp://127.0.0.1:0"} {
		b.Run(address[:3], func(b *testing.B) {
			msg := say("token")
			e := &echo{server: func(_ *text, s grpc.ServerStream) error {
				for {
					if err := s.SendMsg(msg); err != nil {
						return err
					}
				}
			}}
			conn := benchServer(b, address, e.register)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			s, err := openServer(ctx, conn, "")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			defer reportCPU(b)()
			for b.Loop() {
				if err := s.RecvMsg(new(text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkValidate is what validation costs for a request with many numbers and rules on other fields.
func BenchmarkValidate(b *testing.B) {
	v, err := rpc.NewValidator()
	if err != nil {
		b.Fatal(err)
	}
	in := &schedulerv1.RouteRequest{UnitHashes: make([]uint64, 512), Model: "m", RequestId: "r"}
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		_ = v.Check(in)
	}
}
