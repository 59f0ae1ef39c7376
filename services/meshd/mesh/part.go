package mesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// service is what every service's root package gives.
type service interface {
	Run(ctx context.Context) error
	Ready(ctx context.Context) error
}

// made is one life of a part: a service and what serves it.
type made struct {
	service service
	// register adds the service to its gRPC server; nil when it has none.
	register func(grpc.ServiceRegistrar)
	server   rpc.ServerConfig
	// close gives back what the maker acquired. It may be called before the service has ended, and twice.
	close func()
}

// maker puts one part together. It acquires nothing that close does not give back.
type maker func(ctx context.Context, deps partDeps) (*made, error)

// partDeps is what a part is given for one life.
type partDeps struct {
	log        *slog.Logger
	registerer prometheus.Registerer
}

// part is a row of the component table: a piece of the mesh that starts, stops and starts again on its own.
type part struct {
	name  string
	needs []string
	make  maker
	mesh  *Mesh

	mu      sync.Mutex
	life    *life
	changed chan struct{} // closed and replaced when life changes
}

// setLife changes the part's life; p.mu is held.
func (p *part) setLife(l *life) {
	p.life = l
	if p.changed != nil {
		close(p.changed)
	}
	p.changed = make(chan struct{})
}

// run blocks until ctx ends, or until the part's service ends by itself, which is an error.
func (p *part) run(ctx context.Context) error {
	for {
		p.mu.Lock()
		l, changed := p.life, p.changed
		p.mu.Unlock()
		var ended <-chan struct{}
		if l != nil {
			ended = l.ended
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-ended:
			p.mu.Lock()
			own := p.life == l
			p.mu.Unlock()
			if !own {
				continue
			}
			if l.err != nil {
				return l.err
			}
			return errors.New("ended by itself")
		}
	}
}

// life is a part while it runs. Its goroutine ends before stop returns.
type life struct {
	made     *made
	server   *rpc.Server
	registry *prometheus.Registry
	cancel   context.CancelFunc
	ended    chan struct{} // closed when Run has returned; err is set before
	err      error
}

// start brings the part up; it is ready when ready says so. The part outlives ctx.
func (p *part) start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life != nil {
		return fmt.Errorf("%s runs already", p.name)
	}
	registry := prometheus.NewRegistry()
	deps := partDeps{
		log:        p.mesh.deps.Log.With("service", p.name),
		registerer: prometheus.WrapRegistererWith(prometheus.Labels{"service": p.name}, registry),
	}
	m, err := p.make(ctx, deps)
	if err != nil {
		return err
	}
	l := &life{made: m, registry: registry, ended: make(chan struct{})}
	if m.register != nil {
		if err := l.serve(ctx, p.mesh, deps); err != nil {
			m.release()
			return err
		}
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	go func() {
		defer close(l.ended)
		l.err = m.service.Run(run)
	}()
	p.setLife(l)
	return nil
}

// serve starts the gRPC server.
func (l *life) serve(ctx context.Context, m *Mesh, deps partDeps) error {
	server, err := rpc.NewServer(l.made.server, rpc.ServerDeps{
		Log: deps.log, Registerer: deps.registerer, Tracer: m.deps.Tracer, Network: m.network, Validator: m.checks,
	})
	if err != nil {
		return err
	}
	l.made.register(server)
	server.SetReady(l.made.service.Ready)
	if err := server.Start(ctx); err != nil {
		return err
	}
	l.server = server
	return nil
}

func (m *made) release() {
	if m.close != nil {
		m.close()
	}
}

// stop ends the part: its service drains first, then its gRPC server. ctx bounds the wait.
func (p *part) stop(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.life
	if l == nil {
		return nil
	}
	p.setLife(nil)
	l.cancel()
	var err error
	select {
	case <-l.ended:
		err = l.err
	case <-ctx.Done():
		err = fmt.Errorf("%s still runs: %w", p.name, ctx.Err())
	}
	if l.server != nil {
		err = errors.Join(err, l.server.Stop(ctx))
	}
	l.made.release()
	return err
}

// crash cuts the part's connections first, so that its service cannot say goodbye, and then ends it.
func (p *part) crash(ctx context.Context) error {
	p.mu.Lock()
	if p.life != nil {
		p.life.made.release()
	}
	p.mu.Unlock()
	if err := p.stop(ctx); errors.Is(err, ctx.Err()) {
		return err
	}
	return nil
}

// ready is nil when the part's service is ready.
func (p *part) ready(ctx context.Context) error {
	p.mu.Lock()
	l := p.life
	p.mu.Unlock()
	if l == nil {
		return errors.New("stopped")
	}
	select {
	case <-l.ended:
		if l.err != nil {
			return l.err
		}
		return errors.New("ended")
	default:
	}
	return l.made.service.Ready(ctx)
}

// gatherer gives the metrics of the part's present life.
func (p *part) gatherer() prometheus.Gatherer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil {
		return nil
	}
	return p.life.registry
}
