package e2e

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/conf"

	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

// stepLimit bounds the start or stop of a part.
const stepLimit = time.Minute

// repository is the checkout's root.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", ".."))
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "go.work"), "the suite runs in the checkout")
	return dir
}

// one is the mesh of `make up`, in this process.
type one struct {
	mesh *mesh.Mesh
}

func startOne(t *testing.T) shape {
	t.Helper()
	cfg, err := mesh.Load(conf.Source{
		Path:    filepath.Join(repository(t), "deploy", "config", "demo.yaml"),
		Environ: []string{"MODEL_PATH=" + filepath.Join(repository(t), "deploy", "demo-model")},
		Sets: []string{
			"gateway.address=127.0.0.1:0", "gateway.server.address=mem://gateway",
			"mesh.admin.address=tcp://127.0.0.1:0", "gateway.quiet=true",
		},
	})
	require.NoError(t, err)
	m, err := mesh.New(cfg, mesh.Deps{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	require.NoError(t, m.Start(ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		require.NoError(t, m.Stop(ctx))
	})
	return &one{mesh: m}
}

func (o *one) URL(t *testing.T) string { return o.mesh.URL(t.Context()) }

func (o *one) WorkerURL(_ *testing.T, worker int) string { return o.mesh.WorkerURL(workerID(worker)) }

func (o *one) KillWorker(t *testing.T, worker int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	// The simulated worker has no goodbye; its connections to the services end with it, not before.
	require.NoError(t, o.mesh.Halt(ctx, mesh.SimulatedPart(workerID(worker))))
	require.NoError(t, o.mesh.Crash(ctx, mesh.WorkerPart(workerID(worker))))
}

func (o *one) StartWorker(t *testing.T, worker int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	require.NoError(t, o.mesh.Resume(ctx, mesh.SimulatedPart(workerID(worker))))
	require.NoError(t, o.mesh.Resume(ctx, mesh.WorkerPart(workerID(worker))))
}

func (o *one) RestartScheduler(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	require.NoError(t, o.mesh.Halt(ctx, mesh.Scheduler))
	require.NoError(t, o.mesh.Resume(ctx, mesh.Scheduler))
}
