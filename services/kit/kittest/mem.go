package kittest

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// MemServer serves what register registers, in memory with all interceptors, until the test ends, and returns a
// connection to it.
func MemServer(t testing.TB, register func(grpc.ServiceRegistrar)) rpc.Conn {
	t.Helper()
	network := rpc.NewNetwork()
	Serve(t, rpc.ServerConfig{Address: "mem://test"}, rpc.ServerDeps{Network: network}, register)
	return Dial(t, "mem://test", network)
}

// Serve runs a server at any address until the test ends. A nil Log is the test's.
func Serve(
	t testing.TB, cfg rpc.ServerConfig, deps rpc.ServerDeps, register func(grpc.ServiceRegistrar),
) *rpc.Server {
	t.Helper()
	if deps.Log == nil {
		deps.Log = Logger(t)
	}
	srv, err := rpc.NewServer(cfg, deps)
	if err != nil {
		t.Fatalf("new server: %v", err)
	}
	register(srv)
	if err := srv.Start(t.Context()); err != nil {
		t.Fatalf("start server: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		_ = srv.Stop(ctx) // a test that cuts calls knows why
	})
	return srv
}

// Dial connects to a target until the test ends.
func Dial(t testing.TB, target string, network *rpc.Network) rpc.Conn {
	t.Helper()
	conn, err := rpc.Dial(target, rpc.ClientConfig{}, rpc.ClientDeps{Network: network, Log: Logger(t)})
	if err != nil {
		t.Fatalf("dial %s: %v", target, err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
