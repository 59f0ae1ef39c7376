package kittest_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

func TestClock(t *testing.T) {
	t.Parallel()
	c := kittest.NewClock()
	begin := c.Now()
	c.Advance(3 * time.Second)
	require.Equal(t, 3*time.Second, c.Now().Sub(begin))
	require.Equal(t, begin, kittest.NewClock().Now())
}

// TestLoggerAfterTheTest: a goroutine that outlives its test may still log; the testing package would panic.
func TestLoggerAfterTheTest(t *testing.T) {
	t.Parallel()
	var log *slog.Logger
	t.Run("inner", func(t *testing.T) {
		log = kittest.Logger(t)
		log.Debug("during")
	})
	log.Debug("after")
}

func TestWaits(t *testing.T) {
	t.Parallel()
	ch := make(chan int, 1)
	ch <- 4
	require.Equal(t, 4, kittest.Recv(t, ch))
	ch <- 5
	close(ch)
	kittest.Closed(t, ch)
	left := 3
	kittest.Eventually(t, func() error {
		if left--; left > 0 {
			return errors.New("not yet")
		}
		return nil
	})
	require.Zero(t, left)
}

// worker implements nothing.
type worker struct {
	workerv1.UnimplementedWorkerServiceServer
}

func TestMemServer(t *testing.T) {
	t.Parallel()
	conn := kittest.MemServer(t, func(r grpc.ServiceRegistrar) { workerv1.RegisterWorkerServiceServer(r, worker{}) })
	require.NoError(t, rpc.HealthCheck(t.Context(), conn))
	_, err := workerv1.NewWorkerServiceClient(conn).GetCard(t.Context(), &workerv1.GetCardRequest{})
	require.ErrorContains(t, err, "not implemented")
}

func TestBus(t *testing.T) {
	t.Parallel()
	b := kittest.Bus(t, kittest.NATS(t))
	require.NoError(t, b.Ready(t.Context()))
	require.NoError(t, b.PutCard(t.Context(), &workerv1.WorkerCard{WorkerId: "w"}))
}

// TestServePublishesHealth: the health of each registered service is published beside the whole server's.
func TestServePublishesHealth(t *testing.T) {
	t.Parallel()
	srv := kittest.Serve(t, rpc.ServerConfig{Address: "tcp://127.0.0.1:0"}, rpc.ServerDeps{}, func(r grpc.ServiceRegistrar) {
		workerv1.RegisterWorkerServiceServer(r, worker{})
	})
	conn := kittest.Dial(t, srv.Addr(), nil)
	s, err := healthv1.NewHealthClient(conn).Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "kvmesh.worker.v1.WorkerService"})
	require.NoError(t, err)
	got, err := s.Recv()
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_SERVING, got.GetStatus())
}
