package cases

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/gateway"
	"github.com/kvmesh/kvmesh/gateway/casetest"
	"github.com/kvmesh/kvmesh/services/meshd/mesh"
	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
)

// meshed is a mesh in this process with two doors: REST, and REST at an edge that reaches the gateway over gRPC.
type meshed struct {
	mesh  *mesh.Mesh
	doors []doorway
}

type doorway struct{ name, url string }

// workersConfig names the demo model and workers at urls, which are called w0, w1 and so on.
func workersConfig(t *testing.T, urls ...string) mesh.Config {
	t.Helper()
	repo, err := repository()
	require.NoError(t, err)
	var cfg mesh.Config
	cfg.Mesh.Models = []mesh.Model{{Name: base, Path: filepath.Join(repo, "deploy", "demo-model")}}
	for i, url := range urls {
		cfg.Mesh.Workers = append(cfg.Mesh.Workers, mesh.Worker{Config: workeradapter.Config{
			ID: fmt.Sprintf("w%d", i), URL: url, Events: workeradapter.Events{Mode: workeradapter.EventsOff},
			Parity: workeradapter.Parity{Disabled: true}, DrainTimeout: refresh,
		}})
	}
	return cfg
}

// doorsConfig is a mesh over workers at urls that notices soon what happens to them.
func doorsConfig(t *testing.T, urls ...string) mesh.Config {
	t.Helper()
	cfg := workersConfig(t, urls...)
	cfg.Gateway.Own = gateway.Config{
		Address: "127.0.0.1:0", Quiet: true, FleetRefresh: refresh, DrainTimeout: time.Second,
		Worker: gateway.WorkerConfig{ConnectTimeout: connect},
	}
	cfg.Bus.CardTTL = lease
	return cfg
}

// startDoors starts the mesh; change may be nil, without names parts that run elsewhere.
func startDoors(t *testing.T, urls []string, change func(*mesh.Config), without ...string) *meshed {
	t.Helper()
	cfg := doorsConfig(t, urls...)
	port, err := (&ports{}).take()
	require.NoError(t, err)
	cfg.Gateway.Server.Address = tcp(port)
	if change != nil {
		change(&cfg)
	}
	parts := []string{mesh.Template, mesh.Tokenizer, mesh.Scheduler, mesh.Gateway}
	parts = slices.DeleteFunc(parts, func(name string) bool { return slices.Contains(without, name) })
	for i := range urls {
		parts = append(parts, mesh.WorkerPart(fmt.Sprintf("w%d", i)))
	}
	m, err := mesh.New(cfg, mesh.Deps{Log: slog.New(slog.DiscardHandler), Only: parts})
	require.NoError(t, err)
	var ends ends
	t.Cleanup(ends.run)
	require.NoError(t, startMesh(t.Context(), m, true, &ends))
	rest := m.URL(t.Context())
	crossed, err := casetest.Cross(t.Context(), &casetest.Target{BaseURL: rest, Config: cfg.Gateway.Own, Stop: func() {}},
		local(port))
	require.NoError(t, err)
	ends.add(crossed.Stop)
	return &meshed{mesh: m, doors: []doorway{{"REST", rest}, {"gRPC", crossed.BaseURL}}}
}
