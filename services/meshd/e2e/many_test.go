package e2e

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/meshd/internal/supervise"
)

// binaries are the services and the NATS server: those in the folder KVMESH_BIN, or built once per run.
type binaries struct {
	once sync.Once
	dir  string
	own  string // the folder that was made for this run, if one was
	err  error
	out  bytes.Buffer
}

// built is shared by the tests of this package; TestMain removes what was built.
var built binaries

func (b *binaries) folder(t *testing.T) string {
	t.Helper()
	b.once.Do(func() {
		if b.dir = os.Getenv("KVMESH_BIN"); b.dir != "" {
			return
		}
		b.own, b.err = os.MkdirTemp("", "kvmesh-e2e-")
		if b.err != nil {
			return
		}
		b.dir = b.own
		cmd := exec.Command("make", "binaries", "BIN="+b.dir)
		cmd.Dir = repository(t)
		cmd.Stdout, cmd.Stderr = &b.out, &b.out
		b.err = cmd.Run()
	})
	require.NoError(t, b.err, b.out.String())
	return b.dir
}

// many is a mesh of separate processes on free ports.
type many struct {
	set   *supervise.Set
	ports supervise.Ports
	bus   *lossyBus // the way to NATS, nil for the direct one
}

func startMany(t *testing.T) shape {
	t.Helper()
	dir := built.folder(t)
	ports := freePorts(t)
	log, err := os.Create(filepath.Join(t.TempDir(), "mesh.log"))
	require.NoError(t, err)
	t.Setenv("MODEL_PATH", filepath.Join(repository(t), "deploy", "demo-model"))
	config := filepath.Join(repository(t), "deploy", "config", "mesh.yaml")
	m := &many{set: supervise.New(dir, supervise.Table(ports, config, t.TempDir()), log), ports: ports}
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

// freePorts reserves a port for each address of the table; they are released just before the processes take them.
func freePorts(t *testing.T) supervise.Ports {
	t.Helper()
	var p supervise.Ports
	p.Workers = make([]supervise.WorkerPorts, workerCount)
	fields := []*int{
		&p.NATS, &p.GatewayREST, &p.GatewayGRPC, &p.GatewayAdm, &p.TemplateGRPC, &p.TemplateAdmin,
		&p.TokenizerGRPC, &p.TokenizerAdmin, &p.SchedulerGRPC, &p.SchedulerAdmin,
	}
	for i := range p.Workers {
		w := &p.Workers[i]
		fields = append(fields, &w.HTTP, &w.Events, &w.Replay, &w.GRPC, &w.Admin)
	}
	for _, field := range fields {
		l := listenLow(t)
		defer l.Close()
		*field = l.Addr().(*net.TCPAddr).Port
	}
	return p
}

// Ports that are released before a process takes them are looked for below 32768, where neither Linux nor macOS puts the
// near ends of outgoing connections: those take a released port within milliseconds on a busy machine. Package cases, which
// runs at the same time, has those from 21,000 on.
const lowPort, highPort = 10_000, 21_000

// given counts the ports that were given out. Each is given once, since nobody may listen there yet when the next is looked
// for; the first is drawn, for tests of another checkout.
var given = sync.OnceValue(func() *atomic.Int64 {
	n := &atomic.Int64{}
	n.Store(rand.Int64N(highPort - lowPort))
	return n
})

// listenLow listens at a port that stays free when it is released.
func listenLow(t *testing.T) net.Listener {
	t.Helper()
	for range 1000 {
		if l, err := net.Listen("tcp", loopback(lowPort+int(given().Add(1))%(highPort-lowPort))); err == nil {
			return l
		}
	}
	require.Fail(t, "no free port")
	return nil
}

func (m *many) URL(*testing.T) string { return "http://" + loopback(m.ports.GatewayREST) }

func (m *many) WorkerURL(_ *testing.T, worker int) string {
	return "http://" + loopback(m.ports.Workers[worker].HTTP)
}

func loopback(port int) string {
	return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String()
}

func (m *many) kill(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, m.set.Signal(name, syscall.SIGKILL))
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	require.NoError(t, m.set.Wait(ctx, name))
}

func (m *many) start(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	require.NoError(t, m.set.StartOne(ctx, name))
}

func (m *many) KillWorker(t *testing.T, worker int) {
	t.Helper()
	m.kill(t, supervise.SimulatedName(worker))
	m.kill(t, supervise.AdapterName(worker))
}

func (m *many) StartWorker(t *testing.T, worker int) {
	t.Helper()
	m.start(t, supervise.SimulatedName(worker))
	m.start(t, supervise.AdapterName(worker))
}

func (m *many) RestartScheduler(t *testing.T) {
	t.Helper()
	m.kill(t, "scheduler")
	m.start(t, "scheduler")
}
