// Package gateway is the OpenAI-compatible door of kvmesh, for REST clients and gRPC callers. It reads a request once
// and keeps its bytes, has the prompt rendered and tokenised, asks the scheduler where it belongs, sends it to that
// worker and relays the answer as raw bytes. It renders, tokenises and chooses nothing itself.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/boot"

	"github.com/kvmesh/kvmesh/gateway/internal/admit"
	"github.com/kvmesh/kvmesh/gateway/internal/dispatch"
	"github.com/kvmesh/kvmesh/gateway/internal/fleet"
	"github.com/kvmesh/kvmesh/gateway/internal/flight"
	"github.com/kvmesh/kvmesh/gateway/internal/inbound"
	"github.com/kvmesh/kvmesh/gateway/internal/openapi"
	"github.com/kvmesh/kvmesh/gateway/internal/operation"
	"github.com/kvmesh/kvmesh/gateway/internal/prompt"
	"github.com/kvmesh/kvmesh/gateway/internal/rest"
	"github.com/kvmesh/kvmesh/gateway/internal/wire"
)

// Deps is what the gateway stands on.
type Deps struct {
	// Log takes the request lines. Required.
	Log *slog.Logger
	// Registerer takes the metrics; nil keeps them inside.
	Registerer prometheus.Registerer
	// Tracer makes one span per request; nil makes none.
	Tracer trace.TracerProvider
	// Clock is the time of day; nil is time.Now.
	Clock func() time.Time
	// Template, Tokenizer and Scheduler are the services. Required.
	Template  templatev1.TemplateServiceClient
	Tokenizer tokenizerv1.TokenizerServiceClient
	Scheduler schedulerv1.SchedulerServiceClient
}

// Service is one gateway.
type Service struct {
	cfg        Config
	deps       Deps
	keys       *admit.Keys
	edge       *rest.Edge
	operations *operation.Service
	fleet      *fleet.Fleet
	queue      *admit.Queue
	wire       *wire.Client
	dispatcher *dispatch.Dispatcher
	telemetry  *flight.Telemetry

	draining atomic.Bool
	addr     atomic.Value // string
	bound    chan struct{}
	once     sync.Once
}

// New checks the configuration and puts the gateway together. It opens nothing; Run does.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("gateway configuration: %w", err)
	}
	if deps.Log == nil || deps.Template == nil || deps.Tokenizer == nil || deps.Scheduler == nil {
		return nil, errors.New("gateway needs a logger and the template, tokenizer and scheduler services")
	}
	if deps.Clock == nil {
		deps.Clock = time.Now
	}
	keys, err := admit.NewKeys(cfg.Keys, deps.Clock)
	if err != nil {
		return nil, fmt.Errorf("gateway configuration: %w", err)
	}
	s := &Service{cfg: cfg, deps: deps, keys: keys, bound: make(chan struct{})}
	s.build(keys)
	conn := rest.NewConn()
	gatewayv1.RegisterOpenAIServiceServer(conn, s.operations)
	gatewayv1.RegisterMeshServiceServer(conn, s.operations)
	s.edge, err = rest.New(ctx, s.edgeConfig(), rest.Deps{
		Conn: conn, Keys: keys, Telemetry: s.telemetry, Clock: deps.Clock, Healthy: s.healthy, Ready: s.Ready,
		OpenAPI: sync.OnceValues(document),
	})
	if err != nil {
		return nil, fmt.Errorf("build REST edge: %w", err)
	}
	return s, nil
}

// build makes the parts below the edge.
func (s *Service) build(keys *admit.Keys) {
	cfg, deps := &s.cfg, &s.deps
	requests := deps.Log
	if cfg.Quiet {
		requests = slog.New(slog.DiscardHandler)
	}
	s.telemetry = flight.New(requests, deps.Registerer, deps.Clock)
	name := rest.NewID()
	s.fleet = fleet.New(fleet.Config{
		Aliases: cfg.Aliases, DefaultModel: cfg.DefaultModel, Refresh: cfg.FleetRefresh, Gateway: name,
	}, deps.Scheduler, deps.Clock)
	s.queue = admit.NewQueue(admit.QueueConfig{
		MaxInflight: cfg.MaxInflight, MaxInflightPerWorker: cfg.MaxInflightPerWorker,
		Limit: cfg.QueueLimit, Timeout: cfg.QueueTimeout,
	}, s.telemetry.Queued)
	s.wire = wire.NewClient(wire.Config{
		ConnectTimeout: cfg.Worker.ConnectTimeout, IdleTimeout: cfg.Worker.IdleTimeout, MaxIdle: cfg.Worker.MaxIdle,
	})
	s.dispatcher = dispatch.New(dispatch.Config{
		Attempts: cfg.Attempts, StreamIdle: cfg.StreamIdleTimeout, BufferBytes: cfg.PlainBufferBytes,
		MaxEventBytes: cfg.MaxEventBytes, SendIDs: cfg.SendTokenIDs, Hedge: dispatch.Hedge(cfg.Hedge),
		PerWorker: cfg.MaxInflightPerWorker, PlaceWait: cfg.QueueTimeout, Gateway: name,
	}, deps.Scheduler, s.wire, s.telemetry)
	s.operations = operation.New(operation.Config{
		MaxBodyBytes: cfg.MaxBodyBytes, MaxDepth: cfg.MaxDepth, MaxChoices: cfg.MaxChoices, RequestTimeout: cfg.RequestTimeout,
		Keepalive: cfg.KeepaliveInterval, Fanout: cfg.FanoutConcurrency, Continue: cfg.ContinueStreams,
		Adapters: operation.Adapters(cfg.LoRA),
		Forward:  inbound.Policy{WorkerKey: cfg.WorkerKey, PassAuthorization: !keys.Required()},
	}, operation.Deps{
		Log: deps.Log, Clock: deps.Clock, Keys: keys, Queue: s.queue, Fleet: s.fleet,
		Preparer: prompt.New(prompt.Config{Budget: cfg.PromptBudget, WantIDs: cfg.SendTokenIDs},
			deps.Template, deps.Tokenizer, s.telemetry.Skipped),
		Dispatcher: s.dispatcher, Scheduler: deps.Scheduler, Telemetry: s.telemetry, NewID: rest.NewID, Tracer: deps.Tracer,
	})
}

func (s *Service) edgeConfig() rest.Config {
	return rest.Config{MaxBodyBytes: s.cfg.MaxBodyBytes, Origins: s.cfg.CORSOrigins}
}

// Register adds the gateway's services to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	gatewayv1.RegisterOpenAIServiceServer(r, s.operations)
	gatewayv1.RegisterMeshServiceServer(r, s.operations)
}

// document is the OpenAPI document; it is made when somebody asks for it.
func document() ([]byte, error) { return openapi.Document(boot.Version()) }

// RemoteEdge is a REST handler for a gateway in another process, reached over conn: the same paths, errors and bytes,
// with one gRPC hop in between. Keys and limits are checked there; cfg gives the limit of bodies and the origins. healthy
// and ready answer for the gateway behind it.
func RemoteEdge(ctx context.Context, cfg Config, conn grpc.ClientConnInterface, healthy, ready func(context.Context) error) (
	http.Handler, error,
) {
	cfg.SetDefaults()
	return rest.New(ctx, rest.Config{MaxBodyBytes: cfg.MaxBodyBytes, Origins: cfg.CORSOrigins}, rest.Deps{
		Conn:      rest.Pump{ClientConnInterface: conn},
		Telemetry: flight.New(slog.New(slog.DiscardHandler), nil, time.Now), Clock: time.Now,
		Healthy: healthy, Ready: ready, OpenAPI: sync.OnceValues(document),
	})
}

// Handler is the REST handler, for servers other than Run's own.
func (s *Service) Handler() http.Handler { return s.edge }

// Ready is nil when new work is wanted here: the server listens, is not being stopped, and a worker can take work.
func (s *Service) Ready(ctx context.Context) error {
	switch {
	case s.draining.Load():
		return errors.New("the gateway is stopping")
	case s.addr.Load() == nil:
		return errors.New("the REST server does not listen yet")
	}
	return s.healthy(ctx)
}

// healthy is nil when a request could be served now.
func (s *Service) healthy(ctx context.Context) error {
	v, err := s.fleet.Fresh(ctx)
	if err != nil {
		return err
	}
	if v.ReadyWorkers() == 0 {
		return errors.New("no worker can take work")
	}
	return nil
}

// Inflight is how many requests hold a place and how many wait for one.
func (s *Service) Inflight() (running, waiting int) { return s.queue.Counts() }
