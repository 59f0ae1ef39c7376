package mesh

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/kvmesh/kvmesh/gateway"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	schedulersvc "github.com/kvmesh/kvmesh/scheduler-svc"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/bus/embed"
	"github.com/kvmesh/kvmesh/services/kit/lifecycle"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
	templatesvc "github.com/kvmesh/kvmesh/template-svc"
	tokenizersvc "github.com/kvmesh/kvmesh/tokenizer-svc"
)

// Names of the components that every mesh has; workers and simulated workers are "worker-<id>" and "simulated-<id>".
const (
	NATS      = "nats"
	Template  = "template"
	Tokenizer = "tokenizer"
	Scheduler = "scheduler"
	Gateway   = "gateway"
)

// WorkerPart names the adapter of a worker.
func WorkerPart(id string) string { return "worker-" + id }

// SimulatedPart names a simulated worker.
func SimulatedPart(id string) string { return "simulated-" + id }

// shared is what parts have in common.
type shared struct {
	registry *prometheus.Registry
	nats     *embed.Server
}

// table lists the components; it is the only place that knows all services.
func (m *Mesh) table() {
	m.shared.registry = prometheus.NewRegistry()
	add := func(name string, make maker, needs ...string) {
		m.parts = append(m.parts, &part{name: name, needs: needs, make: make, mesh: m})
	}
	add(Template, m.makeTemplate)
	add(Tokenizer, m.makeTokenizer)
	add(Scheduler, m.makeScheduler, NATS)
	for _, s := range m.cfg.Mesh.Simulated {
		add(SimulatedPart(s.ID), m.makeSimulated(s), Template, Tokenizer)
	}
	gatewayNeeds := []string{Template, Tokenizer, Scheduler}
	for _, w := range m.cfg.Mesh.Workers {
		needs := []string{NATS, Template, Tokenizer}
		if m.cfg.IsSimulated(w.ID) {
			needs = append(needs, SimulatedPart(w.ID))
		}
		add(WorkerPart(w.ID), m.makeWorker(w), needs...)
		gatewayNeeds = append(gatewayNeeds, WorkerPart(w.ID))
	}
	add(Gateway, m.makeGateway, gatewayNeeds...)
}

// natsComponent runs the embedded server, if the bus asks for one.
func (m *Mesh) natsComponent() lifecycle.Component {
	c := lifecycle.Component{Name: NATS}
	if m.cfg.Bus.URL != bus.Embedded {
		return c
	}
	c.Start = func(ctx context.Context) error {
		server, err := embed.Start(ctx, m.cfg.NATS, m.deps.Log.With("service", NATS))
		m.shared.nats = server
		return err
	}
	c.Stop = func(context.Context) error {
		m.shared.nats.Close()
		return nil
	}
	return c
}

// connect opens a part's own connection to NATS, as its process would.
func (m *Mesh) connect(ctx context.Context, deps partDeps) (*bus.Bus, error) {
	var inProcess nats.InProcessConnProvider
	if m.shared.nats != nil {
		inProcess = m.shared.nats.InProcess()
	}
	return bus.Connect(ctx, m.cfg.Bus, bus.Deps{Log: deps.log, Registerer: deps.registerer, InProcess: inProcess})
}

// dial opens a part's own connection to a service.
func (m *Mesh) dial(address string, deps partDeps) (rpc.Conn, error) {
	return rpc.Dial(address, m.cfg.Mesh.Client, rpc.ClientDeps{Network: m.network, Log: deps.log})
}

func (m *Mesh) makeTemplate(ctx context.Context, deps partDeps) (*made, error) {
	s, err := templatesvc.New(ctx, m.cfg.Template.Own, templatesvc.Deps{Log: deps.log, Registerer: deps.registerer})
	if err != nil {
		return nil, err
	}
	return &made{service: s, register: s.Register, server: m.cfg.Template.Server}, nil
}

func (m *Mesh) makeTokenizer(ctx context.Context, deps partDeps) (*made, error) {
	s, err := tokenizersvc.New(ctx, m.cfg.Tokenizer.Own, tokenizersvc.Deps{Log: deps.log, Registerer: deps.registerer})
	if err != nil {
		return nil, err
	}
	return &made{service: s, register: s.Register, server: m.cfg.Tokenizer.Server}, nil
}

func (m *Mesh) makeScheduler(ctx context.Context, deps partDeps) (*made, error) {
	b, err := m.connect(ctx, deps)
	if err != nil {
		return nil, err
	}
	s, err := schedulersvc.New(ctx, m.cfg.Scheduler.Own, schedulersvc.Deps{
		Log: deps.log, Registerer: deps.registerer, Bus: b, Network: m.network,
	})
	if err != nil {
		closeBus(b)
		return nil, err
	}
	return &made{
		service: s, register: s.Register, server: m.cfg.Scheduler.Server, close: func() { closeBus(b) },
	}, nil
}

func (m *Mesh) makeGateway(ctx context.Context, deps partDeps) (*made, error) {
	var opened conns
	template := opened.dial(m, m.cfg.Template.Server.Address, deps)
	tokenizer := opened.dial(m, m.cfg.Tokenizer.Server.Address, deps)
	scheduler := opened.dial(m, m.cfg.Scheduler.Server.Address, deps)
	if opened.err != nil {
		opened.close()
		return nil, opened.err
	}
	s, err := gateway.New(ctx, m.cfg.Gateway.Own, gateway.Deps{
		Log: deps.log, Registerer: deps.registerer, Tracer: m.deps.Tracer,
		Template:  templatev1.NewTemplateServiceClient(template),
		Tokenizer: tokenizerv1.NewTokenizerServiceClient(tokenizer),
		Scheduler: schedulerv1.NewSchedulerServiceClient(scheduler),
	})
	if err != nil {
		opened.close()
		return nil, err
	}
	return &made{service: s, register: s.Register, server: m.cfg.Gateway.Server, close: opened.close}, nil
}

// conns collects the connections of one part; the first failure stands in err.
type conns struct {
	list []rpc.Conn
	err  error
}

func (c *conns) dial(m *Mesh, address string, deps partDeps) grpc.ClientConnInterface {
	conn, err := m.dial(address, deps)
	if err != nil {
		if c.err == nil {
			c.err = fmt.Errorf("dial %s: %w", address, err)
		}
		return nil
	}
	c.list = append(c.list, conn)
	return conn
}

func (c *conns) close() {
	for _, conn := range c.list {
		_ = conn.Close()
	}
}
