// Package boot is the main function of a binary that holds one service: flags, configuration, dependencies, serving,
// draining, exit code.
//
// A deployment has one YAML file. This binary reads the sections log, memory, trace and bus, and the service's own, which also
// has the keys server (gRPC) and admin (HTTP):
//
//	bus: {url: nats://nats:4222}
//	scheduler:
//	  server: {address: tcp://0.0.0.0:8081}
//	  admin: {address: tcp://0.0.0.0:8082}
//	  …the service's own keys
package boot

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/grpclog"

	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/obs"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// Service is what a binary runs.
type Service interface {
	// Register adds the service's gRPC methods.
	Register(r grpc.ServiceRegistrar)
	// Run blocks until ctx ends and returns nil then.
	Run(ctx context.Context) error
	// Ready is nil or a sentence why not.
	Ready(ctx context.Context) error
}

// Spec says what a binary is. C is the service's configuration; *C may have SetDefaults and Validate.
type Spec[C any] struct {
	// Name is the service's: its section, its label in metrics and logs.
	Name string
	// Title says in one line what it does, for --help.
	Title string
	// ServerAddress and AdminAddress are the defaults of server.address and admin.address.
	ServerAddress, AdminAddress string
	// UsesBus connects to NATS; else Deps.Bus is nil.
	UsesBus bool
	// Ignore names top-level sections of the shared file beside Sections.
	Ignore []string
	// New makes the service. Connections from Deps.Dial are closed after it has stopped.
	New func(ctx context.Context, cfg C, deps Deps) (Service, error)
}

// Deps is what New gets.
type Deps struct {
	// Log has the service's name.
	Log *slog.Logger
	// Registerer labels metrics with the service's name.
	Registerer prometheus.Registerer
	// Tracer is never nil.
	Tracer trace.TracerProvider
	// Clock is time.Now.
	Clock func() time.Time
	// Bus is nil unless Spec.UsesBus.
	Bus *bus.Bus
	// Dial connects to another service; the connection is closed at the end.
	Dial func(target string, cfg rpc.ClientConfig) (rpc.Conn, error)
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // flags or configuration
)

// Sections are the top-level names in a deployment's file that other binaries own.
func Sections() []string {
	return []string{"gateway", "template", "tokenizer", "scheduler", "adapter", "fakevllm", "mesh", "nats"}
}

// Main runs the binary with the process's arguments, environment, outputs and signals, and returns the exit code.
func Main[C any](spec Spec[C]) int {
	signals := make(chan os.Signal, 2) // both signals of an impatient operator count
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	return Run(context.Background(), spec, Process{
		Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals,
		OnLogger: func(log *slog.Logger) { grpclog.SetLoggerV2(obs.GRPCLogger(log)) },
		OnMemory: func(c obs.MemoryConfig) { c.Apply(os.Environ()) },
	})
}
