package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/kvmesh/kvmesh/services/kit/conf"
)

// DefaultMaxRecv is the largest message taken from or sent over a wire: an 8 MiB request body travels with its tokens
// and hashes, a snapshot part holds 32,768 hashes.
const DefaultMaxRecv = 64 * conf.MiB

// ServerConfig is what a server may be told in a configuration file.
type ServerConfig struct {
	// Address is where it listens; see Address.
	Address string `yaml:"address" doc:"where the server listens: mem://name, unix:///path or tcp://host:port"`
	// TLS applies to tcp://.
	TLS ServerTLS `yaml:"tls" doc:"TLS of a tcp:// server"`
	// MaxRecv bounds one received message; it does not apply to mem://.
	MaxRecv conf.Bytes `yaml:"max_recv" doc:"largest message that is received"`
	// StopGrace is how long running calls may go on after Stop.
	StopGrace time.Duration `yaml:"stop_grace" doc:"how long running calls may go on once the server stops"`
	// HealthEvery is how often readiness is polled.
	HealthEvery time.Duration `yaml:"health_every" doc:"how often readiness is polled for gRPC health"`
}

// SetDefaults fills what is zero, but for the address.
func (c *ServerConfig) SetDefaults() {
	if c.MaxRecv == 0 {
		c.MaxRecv = DefaultMaxRecv
	}
	if c.StopGrace == 0 {
		c.StopGrace = 10 * time.Second
	}
	if c.HealthEvery == 0 {
		c.HealthEvery = time.Second
	}
}

// Validate reports everything that is wrong.
func (c *ServerConfig) Validate() error {
	var f conf.Faults
	if _, err := ParseAddress(c.Address); err != nil {
		f.Add("address", "%v", err)
	}
	f.Under("tls", c.TLS.Validate())
	f.Require(c.MaxRecv > 0, "max_recv", "must be positive")
	f.Require(c.StopGrace > 0, "stop_grace", "must be positive")
	f.Require(c.HealthEvery > 0, "health_every", "must be positive")
	return f.Err()
}

// ServerDeps is what a server needs from its process.
type ServerDeps struct {
	// Log gets panics, INTERNAL causes and, at debug, one line per call. Required.
	Log *slog.Logger
	// Registerer gets the rpc metrics; nil for none.
	Registerer prometheus.Registerer
	// Tracer continues callers' traces; nil or noop's for none.
	Tracer trace.TracerProvider
	// Network is where mem:// names live; required for them.
	Network *Network
	// Validator may be shared by the servers of a process; nil makes one.
	Validator *Validator
	// Interceptors run inside the built-in ones and before validation.
	Interceptors []Interceptor
}

// Server is one gRPC server at one address. Register services, Start, Stop; it is not reusable.
type Server struct {
	cfg     ServerConfig
	addr    Address
	log     *slog.Logger
	metrics *serverMetrics
	core    core
	// validator checks requests.
	validator *Validator
	health    *healthPublisher

	grpc *grpc.Server  // for tcp and unix
	lis  net.Listener  // set by Start
	done chan struct{} // closed when the accept loop has ended

	slot *slot // for mem
	ep   *endpoint

	bound    string
	services []string

	stopOnce sync.Once
	stopErr  error
}

// NewServer builds a server that does not listen yet. Missing defaults are filled in.
func NewServer(cfg ServerConfig, deps ServerDeps) (*Server, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("server config: %w", err)
	}
	addr, err := ParseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, addr: addr, log: deps.Log, bound: cfg.Address, done: make(chan struct{})}
	list, err := s.interceptors(deps)
	if err != nil {
		return nil, err
	}
	s.health = newHealthPublisher(cfg.HealthEvery, deps.Log)
	if addr.Scheme == SchemeMem {
		if deps.Network == nil {
			return nil, fmt.Errorf("server at %s: mem:// needs a Network", cfg.Address)
		}
		s.slot, s.ep = deps.Network.slot(addr.Rest), newEndpoint(addr.Rest, list)
		s.ep.direct = s.direct(deps)
	} else if s.grpc, err = newGRPC(cfg, list); err != nil {
		return nil, err
	}
	s.health.register(s)
	return s, nil
}

// interceptors is the one place that decides their order.
func (s *Server) interceptors(deps ServerDeps) ([]Interceptor, error) {
	var err error
	if s.metrics, err = newServerMetrics(deps.Registerer); err != nil {
		return nil, err
	}
	v := deps.Validator
	if v == nil {
		if v, err = NewValidator(); err != nil {
			return nil, err
		}
	}
	s.validator = v
	steps := []around{recoverStep(deps.Log)}
	if traces(deps.Tracer) {
		steps = append(steps, traceStep(deps.Tracer))
	}
	s.core.steps = append(steps,
		deadlineStep(s.metrics.refuse), s.metrics.step(), logStep(deps.Log), faultStep(deps.Log))
	list := []Interceptor{{Name: "core", Unary: s.core.unary, Stream: s.core.stream}}
	list = append(list, deps.Interceptors...)
	list = append(list, validateStep(v))
	return list, checkInterceptors(list)
}

// traces tells whether a provider makes spans.
func traces(p trace.TracerProvider) bool {
	_, off := p.(noop.TracerProvider)
	return p != nil && !off
}

// newGRPC is the only place where grpc-go's options are set.
func newGRPC(cfg ServerConfig, list []Interceptor) (*grpc.Server, error) {
	opts := []grpc.ServerOption{
		grpc.UnaryInterceptor(chainUnary(list)),
		grpc.StreamInterceptor(chainStream(list)),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(int(cfg.MaxRecv)),
		grpc.MaxSendMsgSize(int(cfg.MaxRecv)),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		// Clients of this package ping every keepaliveTime; twice as often is still no abuse.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: keepaliveTime / 2, PermitWithoutStream: true,
		}),
		grpc.WaitForHandlers(true),
	}
	c, err := cfg.TLS.Config()
	if err != nil {
		return nil, err
	}
	if c != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(c)))
	}
	return grpc.NewServer(opts...), nil
}

// RegisterService makes the server a grpc.ServiceRegistrar. All services are registered before Start.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.metrics.register(desc)
	s.services = append(s.services, desc.ServiceName)
	if s.ep != nil {
		s.ep.register(desc, impl, s.metrics)
		return
	}
	s.grpc.RegisterService(desc, impl)
}

// SetReady sets what gRPC health reports: nil is SERVING. It is called every HealthEvery with a deadline of that time.
// Without it a started server serves. Call it before Start.
func (s *Server) SetReady(ready func(context.Context) error) { s.health.ready = ready }

// Addr is the address to dial, with the real port once Start has returned.
func (s *Server) Addr() string { return s.bound }
