package e2e

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/meshd/internal/supervise"
)

// startIndependent is startMany with simulated workers that render and tokenise by a template and a tokenizer service
// of their own: a real worker does so inside its process, and outlives the mesh's services.
//
// There are n workers. With loss, every process reaches NATS through a way that loses one message in so many.
func startIndependent(t *testing.T, n, loss int) *many {
	t.Helper()
	dir := built.folder(t)
	ports := freePorts(t)
	for len(ports.Workers) < n {
		ports.Workers = append(ports.Workers, supervise.WorkerPorts{
			HTTP: freePort(t), Events: freePort(t), Replay: freePort(t), GRPC: freePort(t), Admin: freePort(t),
		})
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "mesh.log"))
	require.NoError(t, err)
	t.Setenv("MODEL_PATH", filepath.Join(repository(t), "deploy", "demo-model"))
	config := filepath.Join(repository(t), "deploy", "config", "mesh.yaml")
	rows := independent(t, supervise.Table(ports, config, t.TempDir()))
	m := &many{ports: ports}
	if loss > 0 {
		m.bus = startLossyBus(t, loopback(ports.NATS), loss)
		for i := range rows {
			rows[i].Env = append(rows[i].Env[:len(rows[i].Env):len(rows[i].Env)], "NATS_URL="+m.bus.url())
		}
	}
	m.set = supervise.New(dir, rows, log)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		err := m.set.Stop(ctx)
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("last lines of the processes:\n%s", text[max(0, len(text)-8000):])
		}
		require.NoError(t, err)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*stepLimit)
	defer cancel()
	require.NoError(t, m.set.Start(ctx))
	return m
}

// independent adds the workers' own services to a table, and their addresses to the simulated workers' environment.
func independent(t *testing.T, rows []supervise.Process) []supervise.Process {
	t.Helper()
	var own []supervise.Process
	var addresses []string
	for _, row := range rows {
		prefix := map[string]string{"template": "TEMPLATE", "tokenizer": "TOKENIZER"}[row.Name]
		if prefix == "" {
			continue
		}
		serves, admin := "tcp://"+loopback(freePort(t)), "tcp://"+loopback(freePort(t))
		row.Name, row.Ready = "worker-"+row.Name, admin
		row.Env = append(append([]string(nil), row.Env...), prefix+"_LISTEN="+serves, prefix+"_ADMIN="+admin)
		addresses = append(addresses, prefix+"_ADDRESS="+serves)
		own = append(own, row)
	}
	require.Len(t, own, 2, "the table has a template and a tokenizer service")
	for i := range rows {
		if rows[i].Command[0] == "fakevllm" {
			rows[i].Env = append(append([]string(nil), rows[i].Env...), addresses...)
		}
	}
	return append(own, rows...)
}

// freePort is a port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l := listenLow(t)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
