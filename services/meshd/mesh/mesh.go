// Package mesh is the whole of kvmesh in one process: a table of components, each a service with its gRPC server, that
// start in the order of their needs and stop in reverse. Addresses decide how they meet: with mem:// they call one
// another in this process through the same interceptors, with tcp:// they are the same services anybody can reach.
package mesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/trace"

	"github.com/kvmesh/kvmesh/services/kit/lifecycle"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// stopGrace bounds the end of one component. It is longer than the gateway's default drain.
const stopGrace = 45 * time.Second

// Deps is what the mesh is given.
type Deps struct {
	// Log gets all services' lines, each with its service's name.
	Log *slog.Logger
	// Tracer makes the services' spans; nil makes none.
	Tracer trace.TracerProvider
	// Only names the components to run; empty runs all. The others are reached at their sections' addresses.
	Only []string
}

// Mesh is a set of running services. Start it once, Stop it once or more.
type Mesh struct {
	cfg     Config
	deps    Deps
	network *rpc.Network
	checks  *rpc.Validator // shared: compiling the rules of all messages costs more than a service's start
	parts   []*part
	group   *lifecycle.Group
	shared  shared

	mu        sync.Mutex
	addresses map[string]string // of simulated workers, by id
}

// New checks the configuration and makes the component table; Start opens ports.
func New(cfg Config, deps Deps) (*Mesh, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("mesh configuration: %w", err)
	}
	if len(deps.Only) == 0 && len(cfg.Mesh.Workers) == 0 {
		return nil, errors.New("mesh.workers: must name at least one worker, or mesh.simulated one")
	}
	checks, err := rpc.NewValidator()
	if err != nil {
		return nil, err
	}
	m := &Mesh{cfg: cfg, deps: deps, network: rpc.NewNetwork(), checks: checks, addresses: map[string]string{}}
	m.table()
	if err := m.choose(deps.Only); err != nil {
		return nil, err
	}
	components := []lifecycle.Component{m.natsComponent()}
	for _, p := range m.parts {
		components = append(components, lifecycle.Component{
			Name: p.name, Needs: p.needs, Start: p.start, Run: p.run, Stop: p.stop, Ready: p.ready, Grace: stopGrace,
		})
	}
	m.group, err = lifecycle.NewGroup(deps.Log.With("service", "mesh"), components...)
	return m, err
}

// choose keeps the named parts and drops needs that others fill elsewhere.
func (m *Mesh) choose(only []string) error {
	if len(only) == 0 {
		return nil
	}
	var kept []*part
	names := map[string]bool{NATS: true}
	for _, name := range only {
		p := m.part(name)
		if p == nil {
			return fmt.Errorf("no component %q in this configuration; there are %s", name, m.names())
		}
		kept = append(kept, p)
		names[name] = true
	}
	for _, p := range kept {
		p.needs = slices.DeleteFunc(p.needs, func(need string) bool { return !names[need] })
	}
	m.parts = kept
	return nil
}

// names lists the components.
func (m *Mesh) names() string {
	var out []string
	for _, p := range m.parts {
		out = append(out, p.name)
	}
	return strings.Join(out, ", ")
}

// Start starts every component and waits until all are ready or ctx ends.
func (m *Mesh) Start(ctx context.Context) error { return m.group.Start(ctx) }

// Stop stops everything, gateway first.
func (m *Mesh) Stop(ctx context.Context) error { return m.group.Stop(ctx) }

// Done is closed when a component fails; Err has the reason.
func (m *Mesh) Done() <-chan struct{} { return m.group.Done() }

// Err is the first failure.
func (m *Mesh) Err() error { return m.group.Err() }

// Ready names the components that are not ready, nil when all are.
func (m *Mesh) Ready(ctx context.Context) error { return m.group.Ready(ctx) }

// NotReady lists the components that are not ready, in start order.
func (m *Mesh) NotReady(ctx context.Context) []lifecycle.NotReady { return m.group.NotReady(ctx) }

// URL is the REST address, once the gateway listens; empty when it is halted or ctx ends first.
func (m *Mesh) URL(ctx context.Context) string {
	p := m.part(Gateway)
	if p == nil {
		return ""
	}
	p.mu.Lock()
	l := p.life
	p.mu.Unlock()
	if l == nil {
		return ""
	}
	g, ok := l.made.service.(interface {
		Addr(ctx context.Context) string
	})
	if !ok {
		return ""
	}
	return "http://" + g.Addr(ctx)
}

// Config is the configuration in use, defaults filled in.
func (m *Mesh) Config() Config { return m.cfg }

// Halt stops one component alone, in its orderly way; the others go on.
func (m *Mesh) Halt(ctx context.Context, name string) error {
	p := m.part(name)
	if p == nil {
		return fmt.Errorf("no component %q", name)
	}
	return p.stop(ctx)
}

// Crash stops one component without its goodbye: its connections are cut and nothing is published any more, as when its
// process is killed.
func (m *Mesh) Crash(ctx context.Context, name string) error {
	p := m.part(name)
	if p == nil {
		return fmt.Errorf("no component %q", name)
	}
	return p.crash(ctx)
}

// Resume starts a halted component again.
func (m *Mesh) Resume(ctx context.Context, name string) error {
	p := m.part(name)
	if p == nil {
		return fmt.Errorf("no component %q", name)
	}
	return p.start(ctx)
}

func (m *Mesh) part(name string) *part {
	for _, p := range m.parts {
		if p.name == name {
			return p
		}
	}
	return nil
}

// Gather gives the metrics of all services; it implements prometheus.Gatherer.
func (m *Mesh) Gather() ([]*dto.MetricFamily, error) {
	gatherers := prometheus.Gatherers{m.shared.registry}
	for _, p := range m.parts {
		if g := p.gatherer(); g != nil {
			gatherers = append(gatherers, g)
		}
	}
	return gatherers.Gather()
}
