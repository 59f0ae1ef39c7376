package schedulersvc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	schedulersvc "github.com/kvmesh/kvmesh/scheduler-svc"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

// direct starts a service whose methods the test calls without a server.
func (m *mesh) direct(reg prometheus.Registerer) *schedulersvc.Service {
	svc, err := schedulersvc.New(m.t.Context(), schedulersvc.Config{Seed: 1}, schedulersvc.Deps{
		Log: kittest.Logger(m.t), Registerer: reg, Bus: m.bus, Network: m.network,
	})
	require.NoError(m.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	m.t.Cleanup(func() {
		cancel()
		require.NoError(m.t, kittest.Recv(m.t, done))
	})
	kittest.Eventually(m.t, func() error { return svc.Ready(ctx) })
	return svc
}

// TestMetricsTellPhantomHitsAndHaveNoClientText: OPS-02.
func TestMetricsTellPhantomHitsAndHaveNoClientText(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	reg := prometheus.NewPedanticRegistry()
	a := m.adapter("a", nil)
	svc := m.direct(reg)
	units := chain("p", 40)
	a.store(false, units...)
	kittest.Eventually(t, func() error {
		r, err := svc.ListWorkers(t.Context(), &schedulerv1.ListWorkersRequest{})
		if err != nil {
			return err
		}
		if len(r.GetWorkers()) != 1 || r.GetWorkers()[0].GetUnits() != 40 {
			return fmt.Errorf("not fed yet")
		}
		return nil
	})
	before := seriesOf(t, reg)
	for i := range 50 {
		req := request(fmt.Sprint("secret-id-", i), units)
		req.Tenant, req.Session = fmt.Sprint("secret-tenant-", i), fmt.Sprint("secret-session-", i)
		r, err := svc.Route(t.Context(), req)
		require.NoError(t, err)
		_, err = svc.Settle(t.Context(), &schedulerv1.SettleRequest{
			Reservation: r.GetReservation(), Outcome: schedulerv1.Outcome_OUTCOME_OK, CachedTokens: proto.Uint32(600),
		})
		require.NoError(t, err)
		req.Model = fmt.Sprint("secret-model-", i)
		_, err = svc.Route(t.Context(), req)
		require.Error(t, err)
	}
	after := seriesOf(t, reg)
	for name := range after {
		require.NotContains(t, name, "secret")
	}
	require.LessOrEqual(t, len(after)-len(before), 10, "results, outcomes and certainties only")
	require.InDelta(t, 32000, sumOf(t, reg, "kvmesh_scheduler_predicted_hit_tokens_total"), 0)
	require.InDelta(t, 2000, sumOf(t, reg, "kvmesh_scheduler_phantom_hit_tokens_total"), 0)
	require.InDelta(t, 50, sumOf(t, reg, "kvmesh_scheduler_audited_requests_total"), 0)
	require.InDelta(t, 0, sumOf(t, reg, "kvmesh_scheduler_reservations"), 0)
	r, err := svc.ListWorkers(t.Context(), &schedulerv1.ListWorkersRequest{})
	require.NoError(t, err)
	require.Equal(t, schedulerv1.Certainty_CERTAINTY_DEGRADED, r.GetWorkers()[0].GetCertainty(), "predictions have drifted")
}

// sumOf adds a family's series up.
func sumOf(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	total := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.GetMetric() {
			total += s.GetCounter().GetValue() + s.GetGauge().GetValue()
		}
	}
	return total
}

// seriesOf lists metric names with their labels.
func seriesOf(t *testing.T, reg *prometheus.Registry) map[string]bool {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	out := map[string]bool{}
	for _, f := range families {
		require.True(t, strings.HasPrefix(f.GetName(), "kvmesh_scheduler_"), f.GetName())
		for _, s := range f.GetMetric() {
			out[fmt.Sprint(f.GetName(), s.GetLabel())] = true
		}
	}
	return out
}

// TestRoutingGoesOnWithoutTheBus: FLEET-04.
func TestRoutingGoesOnWithoutTheBus(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	a := m.adapter("a", nil)
	svc := m.direct(prometheus.NewRegistry())
	units := chain("p", 10)
	a.store(false, units...)
	kittest.Eventually(t, func() error {
		r, err := svc.ExplainRoute(t.Context(), &schedulerv1.ExplainRouteRequest{Request: request("x", units)})
		if err != nil {
			return err
		}
		if r.GetReceipt().GetPredictedHitTokens() != 160 {
			return fmt.Errorf("not fed yet")
		}
		return nil
	})
	m.nats.Close()
	for range 20 {
		r, err := svc.Route(t.Context(), request("y", units))
		require.NoError(t, err)
		require.Equal(t, uint32(160), r.GetPredictedHitTokens())
		_, err = svc.Settle(t.Context(), &schedulerv1.SettleRequest{
			Reservation: r.GetReservation(), Outcome: schedulerv1.Outcome_OUTCOME_OK,
		})
		require.NoError(t, err)
	}
}
