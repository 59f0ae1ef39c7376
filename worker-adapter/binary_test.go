package workeradapter_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	eventv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/boot"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/bus/embed"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/rpc"

	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// process is the adapter's binary run in this process.
type process struct {
	signals chan os.Signal
	server  chan string
	code    chan int
	out     *safeBuffer
}

// safeBuffer is a log that several goroutines write.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func runBinary(t *testing.T, sets ...string) *process {
	t.Helper()
	p := &process{
		signals: make(chan os.Signal, 2), server: make(chan string, 1), code: make(chan int, 1), out: &safeBuffer{},
	}
	var args []string
	for _, s := range append(sets, "adapter.server.address=tcp://127.0.0.1:0", "adapter.admin.address=tcp://127.0.0.1:0") {
		args = append(args, "--set", s)
	}
	go func() {
		p.code <- boot.Run(context.Background(), workeradapter.Binary(), boot.Process{
			Args: args, Stdout: p.out, Stderr: p.out, Signals: p.signals,
			OnServing: func(server, _ string) { p.server <- server },
		})
	}()
	return p
}

// TestBinary runs the adapter against a NATS server of its own over TCP: card, deltas, snapshot, orderly end.
func TestBinary(t *testing.T) {
	t.Parallel()
	nats := kittest.NATSWith(t, embed.Config{Listen: "127.0.0.1:0"})
	b := kittest.Bus(t, nats)
	w := startWorker(t, fakevllm.Config{BlockSize: 32})
	deltas := make(chan *eventv1.KvDelta, 1000)
	sub, err := bus.Subscribe(b, bus.KVAll(), bus.Handler[*eventv1.KvDelta]{
		OnMessage: func(_ bus.Subject, d *eventv1.KvDelta) { deltas <- d }, OnGap: func(bus.Gap) {},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, sub.Close()) }()
	cards := make(chan bus.CardUpdate, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- b.WatchCards(ctx, func(u bus.CardUpdate) { cards <- u }) }()
	defer func() {
		cancel()
		require.NoError(t, <-watched)
	}()

	p := runBinary(t, "bus.url="+nats.URL(), "adapter.url="+w.url, "adapter.id=gpu-0", "adapter.drain_timeout=5s")
	server := kittest.Recv(t, p.server)
	for u := kittest.Recv(t, cards); ; u = kittest.Recv(t, cards) {
		if u.Card.GetEventState() == workerv1.EventState_EVENT_STATE_LIVE {
			require.Equal(t, "gpu-0", u.WorkerID)
			break
		}
	}
	ids := prompt(8, 200)
	w.complete(t, ids)
	units := 0
	for units < 12 {
		for _, tier := range kittest.Recv(t, deltas).GetTiers() {
			units += len(tier.GetAdded())
		}
	}
	conn := kittest.Dial(t, server, rpc.NewNetwork())
	// The binary listens before it is ready; until then its calls are refused.
	kittest.Eventually(t, func() error { return rpc.HealthCheck(t.Context(), conn) })
	got := 0
	snapshot(t, workerv1.NewWorkerServiceClient(conn), &workerv1.SnapshotRequest{WorkerId: "gpu-0"},
		func(s *workerv1.SnapshotResponse) { got += len(s.Units) })
	require.Equal(t, 12, got)

	p.signals <- syscall.SIGTERM
	draining := false
	for u := kittest.Recv(t, cards); !u.Gone; u = kittest.Recv(t, cards) {
		draining = draining || u.Card.GetState() == workerv1.WorkerState_WORKER_STATE_DRAINING
	}
	require.True(t, draining, "a worker drains before its lease is given back")
	require.Zero(t, kittest.Recv(t, p.code), p.out.String())
	require.NotContains(t, p.out.String(), "panic")
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	cfg := workeradapter.Config{
		URL: "localhost:8000", ID: "a b", Copies: "some", PollBusy: time.Second, PollIdle: time.Minute, DrainTimeout: -1,
		Events: workeradapter.Events{Mode: "maybe", Endpoint: "5557", ReplayEndpoint: "x", Ranks: 1000},
		Parity: workeradapter.Parity{Every: 1, TokenIDs: "maybe"},
	}
	_, err := workeradapter.New(t.Context(), cfg, workeradapter.Deps{})
	for _, path := range []string{
		"url", "id", "copies", "poll_busy", "poll_idle", "drain_timeout", "events.mode", "events.endpoint",
		"events.replay_endpoint", "events.ranks", "parity.every", "parity.token_ids",
	} {
		require.ErrorContains(t, err, path)
	}
	cfg = workeradapter.Config{URL: "http://10.0.0.1:8000/"}
	cfg.SetDefaults()
	require.NoError(t, cfg.Validate())
	require.Equal(t, "10-0-0-1-8000", cfg.ID)
	require.Equal(t, "http://10.0.0.1:8000", cfg.PublicURL)
}

// TestLinks: the adapter links neither cgo packages nor a NATS server, and no other service.
func TestLinks(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/worker-adapter")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("go list: %s", exit.Stderr)
	}
	require.NoError(t, err)
	for _, banned := range []string{
		"nats-server", "runtime/cgo", "kvmesh/gateway", "kvmesh/scheduler-svc", "kvmesh/template-svc",
		"kvmesh/tokenizer-svc", "fakevllm", "testing\n",
	} {
		require.False(t, strings.Contains(string(out), banned), "links %s", banned)
	}
}
