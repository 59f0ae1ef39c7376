package boot_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/boot"
	"github.com/kvmesh/kvmesh/services/kit/bus/embed"
	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/obs"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// config is a service's own section.
type config struct {
	Policy string `yaml:"policy"`
	Secret string `yaml:"secret" redact:"true"`
}

func (c *config) SetDefaults() {
	if c.Policy == "" {
		c.Policy = "cost"
	}
}

func (c *config) Validate() error {
	var f conf.Faults
	f.Require(c.Policy != "bad", "policy", "is unknown")
	return f.Err()
}

// service is a scheduler without methods.
type service struct {
	schedulerv1.UnimplementedSchedulerServiceServer
	run   func(context.Context) error
	ready func() error
}

func (s *service) Register(r grpc.ServiceRegistrar) { schedulerv1.RegisterSchedulerServiceServer(r, s) }

func (s *service) Ready(context.Context) error {
	if s.ready == nil {
		return nil
	}
	return s.ready()
}

func (s *service) Run(ctx context.Context) error {
	if s.run != nil {
		return s.run(ctx)
	}
	<-ctx.Done()
	return nil
}

// output is a writer that goroutines share.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// binary is one run of a binary.
type binary struct {
	stdout, stderr output
	signals        chan os.Signal
	addresses      chan [2]string
	code           chan int
	got            config
}

func start(t *testing.T, svc *service, args ...string) *binary {
	t.Helper()
	return startWith(t, boot.Spec[config]{}, svc, args...)
}

func startWith(t *testing.T, spec boot.Spec[config], svc *service, args ...string) *binary {
	t.Helper()
	b := &binary{signals: make(chan os.Signal, 2), addresses: make(chan [2]string, 1), code: make(chan int, 1)}
	spec.Name, spec.Title = "scheduler", "Chooses workers."
	spec.ServerAddress, spec.AdminAddress = "tcp://127.0.0.1:0", "tcp://127.0.0.1:0"
	if spec.New == nil {
		spec.New = func(_ context.Context, cfg config, _ boot.Deps) (boot.Service, error) {
			b.got = cfg
			return svc, nil
		}
	}
	go func() {
		b.code <- boot.Run(context.Background(), spec, boot.Process{
			Args: args, Stdout: &b.stdout, Stderr: &b.stderr, Signals: b.signals,
			OnServing: func(server, admin string) { b.addresses <- [2]string{server, admin} },
		})
	}()
	return b
}

func TestServeUntilSignal(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	b := start(t, &service{ready: func() error {
		if ready.Load() {
			return nil
		}
		return errors.New("feeding")
	}}, "--set", "scheduler.policy=random")
	ready.Store(true)
	at := kittest.Recv(t, b.addresses)
	conn := kittest.Dial(t, at[0], nil)
	kittest.Eventually(t, func() error { return rpc.HealthCheck(t.Context(), conn) })
	health := start(t, nil, "health", "--set", "scheduler.admin.address="+at[1])
	require.Equal(t, 0, kittest.Recv(t, health.code), health.stderr.String())
	require.Equal(t, "ready\n", health.stdout.String())
	ready.Store(false)
	health = start(t, nil, "health", "--set", "scheduler.admin.address="+at[1])
	require.Equal(t, 1, kittest.Recv(t, health.code))
	require.Contains(t, health.stderr.String(), "scheduler: feeding")
	b.signals <- syscall.SIGTERM
	require.Equal(t, 0, kittest.Recv(t, b.code), b.stderr.String())
	require.Equal(t, "random", b.got.Policy)
	health = start(t, nil, "health", "--set", "scheduler.admin.address="+at[1])
	require.Equal(t, 1, kittest.Recv(t, health.code))
	require.Contains(t, health.stderr.String(), "nobody answers at "+at[1])
}

func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	b := start(t, &service{run: func(ctx context.Context) error {
		<-ctx.Done()
		<-release // ignores its end
		return nil
	}})
	kittest.Recv(t, b.addresses)
	b.signals <- syscall.SIGINT
	b.signals <- syscall.SIGINT
	require.Equal(t, 1, kittest.Recv(t, b.code))
	require.Contains(t, b.stderr.String(), "still running")
}

func TestSignalWhileStarting(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	var once sync.Once
	b := start(t, &service{ready: func() error {
		once.Do(func() { close(asked) })
		return errors.New("loading")
	}})
	kittest.Closed(t, asked)
	b.signals <- syscall.SIGTERM
	require.Equal(t, 0, kittest.Recv(t, b.code), b.stderr.String())
}

func TestTakenAddressIsOneSentence(t *testing.T) {
	t.Parallel()
	lis, err := rpc.Listen("tcp://127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, lis.Close()) }()
	address := "tcp://" + lis.Addr().String()
	for _, key := range []string{"server", "admin"} {
		b := start(t, &service{}, "--set", "scheduler."+key+".address="+address)
		require.Equal(t, 1, kittest.Recv(t, b.code))
		require.Equal(t, "scheduler: start "+key+": the address "+address+
			" is taken by another process; stop that process or configure another address", lastLine(b))
	}
}

func lastLine(b *binary) string {
	lines := strings.Split(strings.TrimSpace(b.stderr.String()), "\n")
	return lines[len(lines)-1]
}

// TestServesWhileNotReady: a service that waits for others listens, and says what it waits for.
func TestServesWhileNotReady(t *testing.T) {
	t.Parallel()
	b := start(t, &service{ready: func() error { return errors.New("no worker yet") }})
	at := kittest.Recv(t, b.addresses)
	conn := kittest.Dial(t, at[0], nil)
	require.ErrorContains(t, rpc.HealthCheck(t.Context(), conn), "NOT_SERVING")
	health := start(t, nil, "health", "--set", "scheduler.admin.address="+at[1])
	require.Equal(t, 1, kittest.Recv(t, health.code))
	require.Contains(t, health.stderr.String(), "scheduler: no worker yet")
	b.signals <- syscall.SIGTERM
	require.Equal(t, 0, kittest.Recv(t, b.code), b.stderr.String())
}

// TestReadyMeansThatItServes: from the first answer of the admin server on, "ready" is not said before gRPC answers.
func TestReadyMeansThatItServes(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "kv")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	server, admin := "unix://"+filepath.Join(dir, "s"), "unix://"+filepath.Join(dir, "a")
	b := start(t, &service{}, "--set", "scheduler.server.address="+server, "--set", "scheduler.admin.address="+admin)
	kittest.Eventually(t, func() error { return obs.CheckReady(t.Context(), admin) })
	conn, err := net.Dial("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	b.signals <- syscall.SIGTERM
	require.Equal(t, 0, kittest.Recv(t, b.code), b.stderr.String())
}

func TestFailures(t *testing.T) {
	t.Parallel()
	b := start(t, &service{run: func(context.Context) error { return errors.New("disk full") }})
	require.Equal(t, 1, kittest.Recv(t, b.code))
	require.Equal(t, 1, strings.Count(b.stderr.String(), "disk full"), b.stderr.String())
	require.True(t, strings.HasPrefix(lastLine(b), "scheduler: ") && strings.HasSuffix(lastLine(b), "disk full"), lastLine(b))

	b = start(t, &service{
		run: func(context.Context) error { return errors.New("disk full") }, ready: func() error { return errors.New("loading") },
	})
	require.Equal(t, 1, kittest.Recv(t, b.code), "a failure ends a service that is not ready too")
	require.True(t, strings.HasPrefix(lastLine(b), "scheduler: ") && strings.HasSuffix(lastLine(b), "disk full"), lastLine(b))

	b = startWith(t, boot.Spec[config]{New: func(context.Context, config, boot.Deps) (boot.Service, error) {
		return nil, errors.New("no model")
	}}, nil)
	require.Equal(t, 1, kittest.Recv(t, b.code))
	require.Contains(t, b.stderr.String(), "scheduler: no model\n")
}

func TestConfigCommand(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kvmesh.yaml")
	require.NoError(t, os.WriteFile(path, []byte(
		"gateway: {anything: \"${UNSET}\"}\nbus: {url: x}\nlog: {level: debug}\n"+
			"scheduler: {secret: hunter2, server: {address: \"${UNSET:-unix:///tmp/expanded}\"}}\n"), 0o600))
	b := start(t, nil, "config", "--config", path, "--set", "scheduler.policy=p")
	require.Equal(t, 0, kittest.Recv(t, b.code), b.stderr.String())
	require.Contains(t, b.stdout.String(), "policy: p")
	require.Contains(t, b.stdout.String(), "level: debug")
	require.Contains(t, b.stdout.String(), "unix:///tmp/expanded", "variables of its own section are expanded")
	require.NotContains(t, b.stdout.String(), "hunter2")
	require.NotContains(t, b.stdout.String(), "bus")
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		args []string
		code int
		out  string
	}{
		{"help", []string{"--help"}, 0, "Chooses workers."},
		{"version", []string{"version"}, 0, "devel"},
		{"unknown flag", []string{"--colour"}, 2, "unknown flag --colour"},
		{"unknown key", []string{"--set", "scheduler.polcy=x"}, 2, `did you mean "policy"?`},
		{
			"all faults",
			[]string{"--set", "scheduler.policy=bad", "--set", "log.level=x", "--set", "scheduler.server.address=y"},
			2,
			"log.level: is debug",
		},
		{"own fault", []string{"--set", "scheduler.policy=bad"}, 2, "scheduler.policy: is unknown"},
		{"missing file", []string{"--config", "/does/not/exist"}, 2, "/does/not/exist"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := start(t, &service{}, row.args...)
			require.Equal(t, row.code, kittest.Recv(t, b.code), b.stderr.String())
			require.Contains(t, b.stdout.String()+b.stderr.String(), row.out)
		})
	}
}

// TestBusAndDial: a binary with a bus waits for NATS; connections that New makes are closed at the end.
func TestBusAndDial(t *testing.T) {
	t.Parallel()
	nats := kittest.NATSWith(t, embed.Config{Listen: "127.0.0.1:0"})
	b := startWith(t, boot.Spec[config]{
		UsesBus: true,
		New: func(ctx context.Context, _ config, deps boot.Deps) (boot.Service, error) {
			if deps.Bus == nil || deps.Clock().IsZero() {
				return nil, errors.New("deps are missing")
			}
			_, err := deps.Dial("tcp://127.0.0.1:1", rpc.ClientConfig{})
			return &service{ready: func() error { return deps.Bus.Ready(ctx) }}, err
		},
	}, nil, "--set", "bus.url="+nats.URL())
	kittest.Recv(t, b.addresses)
	b.signals <- syscall.SIGTERM
	require.Equal(t, 0, kittest.Recv(t, b.code), b.stderr.String())
}

// TestEndOfContextStops: a test or a host process may end a binary by its context.
func TestEndOfContextStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out output
	code := boot.Run(ctx, boot.Spec[config]{
		Name: "scheduler", ServerAddress: "tcp://127.0.0.1:0", AdminAddress: "tcp://127.0.0.1:0",
		New: func(context.Context, config, boot.Deps) (boot.Service, error) { return &service{}, nil },
	}, boot.Process{Stdout: &out, Stderr: &out, OnServing: func(string, string) { cancel() }})
	require.Equal(t, 0, code, out.String())
}
