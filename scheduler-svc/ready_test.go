package schedulersvc_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	schedulersvc "github.com/kvmesh/kvmesh/scheduler-svc"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// TestReadyNamesTheBus: without NATS the registry cannot be read, and the reason is NATS, not the registry.
func TestReadyNamesTheBus(t *testing.T) {
	t.Parallel()
	b, err := bus.Connect(t.Context(), bus.Config{URL: "nats://127.0.0.1:1"}, bus.Deps{
		Log: kittest.Logger(t), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close(context.Background()) }) // nothing is there to drain to
	svc, err := schedulersvc.New(t.Context(), schedulersvc.Config{Name: "s"}, schedulersvc.Deps{
		Log: kittest.Logger(t), Registerer: prometheus.NewRegistry(), Bus: b, Network: rpc.NewNetwork(),
	})
	require.NoError(t, err)
	require.ErrorContains(t, svc.Ready(t.Context()), "not connected to NATS at nats://127.0.0.1:1")
}
