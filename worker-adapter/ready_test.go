package workeradapter_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"

	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// registry is a mesh whose registry can be away.
type registry struct {
	*mesh
	away    atomic.Bool
	refused atomic.Int64
}

var errAway = errors.New("the registry is away")

func (r *registry) PutCard(ctx context.Context, c *workerv1.WorkerCard) error {
	if r.away.Load() {
		r.refused.Add(1)
		return errAway
	}
	return r.mesh.PutCard(ctx, c)
}

// awaitRefused waits until n more cards could not be published.
func (r *registry) awaitRefused(t *testing.T, n int64) {
	t.Helper()
	until := r.refused.Load() + n
	kittest.Eventually(t, func() error {
		if r.refused.Load() < until {
			return errors.New("the adapter gave up on the registry")
		}
		return nil
	})
}

// TestReadyWithoutRegistry: an adapter is not ready before its first card, and ready ever after: schedulers ask it for
// snapshots in the moment when the registry is back, before it has put its next card.
func TestReadyWithoutRegistry(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{})
	r := &registry{mesh: newMesh()}
	r.away.Store(true)
	svc, err := workeradapter.New(t.Context(), fast(w.url), workeradapter.Deps{Log: kittest.Logger(t), Bus: r})
	require.NoError(t, err)
	require.ErrorContains(t, svc.Ready(t.Context()), "not asked yet")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	r.awaitRefused(t, 3)
	require.ErrorIs(t, svc.Ready(t.Context()), errAway)
	r.away.Store(false)
	kittest.Eventually(t, func() error { return svc.Ready(t.Context()) })
	untilLive(t, r.mesh)
	r.away.Store(true)
	r.awaitRefused(t, 3)
	require.NoError(t, svc.Ready(t.Context()))
	require.NoError(t, w.SetFaults(fakevllm.Faults{Refuse: true}))
	r.awaitRefused(t, 3)
	require.NoError(t, svc.Ready(t.Context()), "a worker that is gone may come back")
}
