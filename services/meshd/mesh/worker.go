package mesh

import (
	"context"
	"time"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/remote"
)

// busCloseLimit bounds the end of one connection to NATS.
const busCloseLimit = 2 * time.Second

func closeBus(b *bus.Bus) {
	ctx, cancel := context.WithTimeout(context.Background(), busCloseLimit)
	defer cancel()
	_ = b.Close(ctx)
}

// makeSimulated makes a simulated worker that renders and tokenises with the mesh's own services. A second life
// listens where the first did, as a restarted process would.
func (m *Mesh) makeSimulated(s Simulated) maker {
	listen := s.Listen
	return func(_ context.Context, deps partDeps) (*made, error) {
		var opened conns
		template := opened.dial(m, m.cfg.Template.Server.Address, deps)
		tokenizer := opened.dial(m, m.cfg.Tokenizer.Server.Address, deps)
		if opened.err != nil {
			opened.close()
			return nil, opened.err
		}
		cfg := s.Config
		cfg.Listen = listen
		worker, err := fakevllm.New(cfg, fakevllm.Deps{
			Log:       deps.log,
			Tokenizer: remote.Tokenizer{Client: tokenizerv1.NewTokenizerServiceClient(tokenizer), Model: cfg.Model},
			Renderer: remote.Renderer{
				Client: templatev1.NewTemplateServiceClient(template), Model: cfg.Model, Version: cfg.Version,
			},
		})
		if err != nil {
			opened.close()
			return nil, err
		}
		listen = worker.Addr()
		m.setAddress(s.ID, listen)
		return &made{service: worker, close: opened.close}, nil
	}
}

// setAddress notes where a simulated worker listens.
func (m *Mesh) setAddress(id, address string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addresses[id] = address
}

// WorkerURL is the HTTP address of a worker.
func (m *Mesh) WorkerURL(id string) string {
	if w := m.cfg.worker(id); w != nil && w.URL != "" {
		return w.URL
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return "http://" + m.addresses[id]
}

// makeWorker makes the adapter of a worker.
func (m *Mesh) makeWorker(w Worker) maker {
	return func(ctx context.Context, deps partDeps) (*made, error) {
		var opened conns
		template := opened.dial(m, m.cfg.Template.Server.Address, deps)
		tokenizer := opened.dial(m, m.cfg.Tokenizer.Server.Address, deps)
		if opened.err != nil {
			opened.close()
			return nil, opened.err
		}
		b, err := m.connect(ctx, deps)
		if err != nil {
			opened.close()
			return nil, err
		}
		release := func() {
			closeBus(b)
			opened.close()
		}
		cfg := w.Config
		cfg.URL = m.WorkerURL(w.ID)
		cfg.SetDefaults()
		s, err := workeradapter.New(ctx, cfg, workeradapter.Deps{
			Log: deps.log, Registerer: deps.registerer, Bus: b,
			Template:  templatev1.NewTemplateServiceClient(template),
			Tokenizer: tokenizerv1.NewTokenizerServiceClient(tokenizer),
		})
		if err != nil {
			release()
			return nil, err
		}
		return &made{service: s, register: s.Register, server: w.Server, close: release}, nil
	}
}
