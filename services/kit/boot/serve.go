package boot

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/lifecycle"
	"github.com/kvmesh/kvmesh/services/kit/obs"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

const (
	// startLimit bounds the wait for the bus; the service itself may become ready later.
	startLimit = 5 * time.Minute
	// closeGrace bounds what is closed after the components: traces that are sent, the bus that is drained.
	closeGrace = 5 * time.Second
)

// host is a binary that serves.
type host[C any] struct {
	spec     Spec[C]
	cfg      config[C]
	log      *slog.Logger
	registry *prometheus.Registry
	stack    lifecycle.Stack
	bus      *bus.Bus
	deps     Deps
	service  Service
	server   *rpc.Server
	admin    *obs.Admin
	group    atomic.Pointer[lifecycle.Group]
	stopping atomic.Bool
}

// serve runs the service until a signal, the end of ctx, or a failure.
func serve[C any](ctx context.Context, spec Spec[C], cfg config[C], p Process) (err error) {
	out := obs.NewLogWriter(p.Stderr, cfg.log.Flush)
	defer out.Close() // after all that logs
	if p.OnMemory != nil {
		p.OnMemory(cfg.memory)
	}
	h := &host[C]{spec: spec, cfg: cfg, log: obs.NewLogger(cfg.log, out, spec.Name), registry: obs.NewRegistry()}
	if p.OnLogger != nil {
		p.OnLogger(h.log)
	}
	ctx, cancel := context.WithCancel(ctx) // ends a start that is under way
	defer cancel()
	defer func() {
		end, done := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer done()
		if closing := h.stack.Close(end); closing != nil {
			err = errors.Join(err, closing)
		}
	}()
	if err := h.build(ctx); err != nil {
		return err
	}
	group, err := lifecycle.NewGroup(h.log, h.components()...)
	if err != nil {
		return err
	}
	h.group.Store(group)
	started := make(chan error, 1)
	go func() { started <- h.start(ctx, group) }() // ends with cancel at the latest
	select {
	case err := <-started:
		if err != nil {
			return err
		}
	case s := <-p.Signals:
		h.log.Info("stopped while starting", "signal", s.String())
		h.stopping.Store(true)
		cancel()
		if err := <-started; err == nil { // the signal came as the start was over
			return group.Stop(context.WithoutCancel(ctx))
		}
		return nil // the start was given up; what it says no longer matters
	}
	h.log.Info("serving", "server", h.server.Addr(), "admin", h.admin.Addr(), "version", Version())
	if p.OnServing != nil {
		p.OnServing(h.server.Addr(), h.admin.Addr())
	}
	return h.wait(ctx, group, p.Signals)
}

// start is bounded: a supervisor that restarts the process is better than one that waits forever.
func (h *host[C]) start(ctx context.Context, group *lifecycle.Group) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return group.Start(ctx)
}

// build makes everything that does not run yet; what must be closed goes on the stack.
func (h *host[C]) build(ctx context.Context) error {
	tracer, shutdown, err := obs.NewTracer(ctx, h.cfg.trace, h.spec.Name)
	if err != nil {
		return err
	}
	h.stack.Push("traces", shutdown)
	h.deps = Deps{
		Log: h.log, Registerer: obs.ForService(h.registry, h.spec.Name), Tracer: tracer, Clock: time.Now, Dial: h.dial,
	}
	if h.spec.UsesBus {
		b, err := bus.Connect(ctx, h.cfg.bus, bus.Deps{Log: h.log, Registerer: h.deps.Registerer})
		if err != nil {
			return err
		}
		h.stack.Push("bus", b.Close)
		h.bus, h.deps.Bus = b, b
	}
	if h.service, err = h.spec.New(ctx, h.cfg.own.Own, h.deps); err != nil {
		return err
	}
	h.server, err = rpc.NewServer(h.cfg.own.Server, rpc.ServerDeps{
		Log: h.log, Registerer: h.deps.Registerer, Tracer: tracer, Network: rpc.NewNetwork(),
	})
	if err != nil {
		return err
	}
	h.service.Register(h.server)
	h.server.SetReady(h.service.Ready)
	h.admin, err = obs.NewAdmin(h.cfg.own.Admin, obs.AdminDeps{Log: h.log, Gatherer: h.registry, NotReady: h.notReady})
	return err
}

// dial is Deps.Dial. New owns no connection: the stack closes them after the service has stopped.
func (h *host[C]) dial(target string, cfg rpc.ClientConfig) (rpc.Conn, error) {
	conn, err := rpc.Dial(target, cfg, rpc.ClientDeps{Log: h.log})
	if err != nil {
		return nil, err
	}
	h.stack.Push("connection to "+target, func(context.Context) error { return conn.Close() })
	return conn, nil
}

// components in the order of their start: the admin server first, so that a long start can be watched, the gRPC server
// beside the service, whose readiness its health follows: a client learns why not from its answers, not from a closed
// port, and a gateway waits for workers as long as there are none.
func (h *host[C]) components() []lifecycle.Component {
	list := []lifecycle.Component{{Name: "admin", Start: h.admin.Start, Stop: h.admin.Stop}}
	needs := []string{"admin"}
	if h.bus != nil {
		list = append(list, lifecycle.Component{Name: "bus", Ready: h.bus.Ready})
		needs = append(needs, "bus")
	}
	return append(list,
		lifecycle.Component{Name: h.spec.Name, Needs: needs, Run: h.service.Run, Ready: h.service.Ready, Late: true},
		lifecycle.Component{
			Name: "server", Needs: []string{h.spec.Name}, Start: h.server.Start, Stop: h.server.Stop,
			Grace: h.cfg.own.Server.StopGrace + 2*time.Second, // the server ends its calls itself within StopGrace
		})
}

// notReady is what /readyz lists.
func (h *host[C]) notReady(ctx context.Context) []lifecycle.NotReady {
	group := h.group.Load()
	if h.stopping.Load() {
		return []lifecycle.NotReady{{Name: h.spec.Name, Why: "the process is stopping"}}
	}
	if group == nil {
		return []lifecycle.NotReady{{Name: h.spec.Name, Why: "the process is starting"}}
	}
	return group.NotReady(ctx)
}

// wait serves until something ends it, then drains: unready first, running calls finish, components stop in reverse.
func (h *host[C]) wait(ctx context.Context, group *lifecycle.Group, signals <-chan os.Signal) error {
	var failure error
	select {
	case s := <-signals:
		h.log.Info("stopping; a second signal stops at once", "signal", s.String())
	case <-ctx.Done():
	case <-group.Done():
		failure = group.Err()
		h.log.Error("a component failed; stopping") // the last line says which one and why
	}
	h.stopping.Store(true)
	stop, now := context.WithCancel(context.WithoutCancel(ctx))
	defer now()
	stopped := make(chan error, 1)
	go func() { stopped <- group.Stop(stop) }() // ends within the graces, at once after now
	for {
		select {
		case err := <-stopped:
			return errors.Join(failure, err)
		case s := <-signals:
			h.log.Warn("stopping at once", "signal", s.String())
			now()
		}
	}
}
