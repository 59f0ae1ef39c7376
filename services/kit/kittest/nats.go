package kittest

import (
	"context"
	"testing"
	"time"

	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/bus/embed"
)

// NATS runs an embedded server without a port until the test ends.
func NATS(t testing.TB) *embed.Server {
	t.Helper()
	return NATSWith(t, embed.Config{})
}

// NATSWith is NATS with a configuration, for instance a listener on "127.0.0.1:0".
func NATSWith(t testing.TB, cfg embed.Config) *embed.Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	srv, err := embed.Start(t.Context(), cfg, Logger(t))
	if err != nil {
		t.Fatalf("start embedded NATS: %v", err)
	}
	t.Cleanup(srv.Close)
	return srv
}

// Bus connects to an embedded server until the test ends.
func Bus(t testing.TB, srv *embed.Server) *bus.Bus {
	t.Helper()
	return BusWith(t, srv, bus.Config{})
}

// BusWith is Bus with a configuration; a short CardTTL makes leases end soon.
func BusWith(t testing.TB, srv *embed.Server, cfg bus.Config) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(t.Context(), cfg, bus.Deps{Log: Logger(t), InProcess: srv.InProcess()})
	if err != nil {
		t.Fatalf("connect to embedded NATS: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = b.Close(ctx) // a test may have stopped the server before
	})
	return b
}
