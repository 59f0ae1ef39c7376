package cases

import (
	"context"
	"log/slog"
	"time"

	"github.com/kvmesh/kvmesh/gateway/casetest"
	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

// stepLimit bounds the start or stop of a mesh.
const stepLimit = time.Minute

// one opens a mesh in this process for each case: NATS, template, tokenizer and scheduler service, an adapter for each
// scripted worker, and the gateway. With grpc the cases cross the gateway's gRPC server.
type one struct {
	repo  string
	ports *ports
	grpc  bool
}

// Open starts the mesh.
func (o one) Open(ctx context.Context, s casetest.Setup, f *casetest.Fleet) (t *casetest.Target, err error) {
	var ends ends
	defer func() {
		if err != nil {
			ends.run()
		}
	}()
	var cfg mesh.Config
	folder, release, err := modelFolder(o.repo, s)
	if err != nil {
		return nil, err
	}
	ends.add(release)
	for _, m := range models(f) {
		cfg.Mesh.Models = append(cfg.Mesh.Models, mesh.Model{Name: m, Path: folder})
	}
	cfg.Gateway.Own, cfg.Bus.CardTTL = gatewayConfig(s), lease
	port, err := o.ports.take()
	if err != nil {
		return nil, err
	}
	cfg.Gateway.Server.Address = tcp(port)
	only := []string{mesh.Template, mesh.Tokenizer, mesh.Scheduler}
	if only, err = o.hooks(s, &cfg, only, &ends); err != nil {
		return nil, err
	}
	for _, w := range present(f) {
		cfg.Mesh.Workers = append(cfg.Mesh.Workers, mesh.Worker{Config: adapterConfig(w)})
		only = append(only, mesh.WorkerPart(w.Name))
	}
	m, err := mesh.New(cfg, mesh.Deps{Log: slog.New(slog.DiscardHandler), Only: append(only, mesh.Gateway)})
	if err != nil {
		return nil, err
	}
	if err := startMesh(ctx, m, len(present(f)) > 0, &ends); err != nil {
		return nil, err
	}
	d := &door{rest: m.URL(ctx)}
	if len(s.APIKeys) > 0 {
		d.key = s.APIKeys[0]
	}
	if s.RequestsPerMinute == 0 {
		if err := d.settled(ctx, present(f)); err != nil {
			return nil, err
		}
	}
	t = &casetest.Target{BaseURL: d.rest, Config: gatewayConfig(s), Stop: ends.run}
	t.Inflight = func() int { return gauge(m, "kvmesh_gateway_inflight_requests") + d.reserved() }
	if o.grpc {
		return casetest.Cross(ctx, t, local(port))
	}
	return t, nil
}

// startMesh starts m and has it stopped in the end. A gateway without workers is never ready: it is not waited for.
func startMesh(ctx context.Context, m *mesh.Mesh, ready bool, ends *ends) error {
	ends.add(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		_ = m.Stop(ctx)
	})
	if !ready {
		return startBare(ctx, m, ends)
	}
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	return m.Start(ctx)
}

// startBare starts a mesh without workers up to the point where its gateway answers; the start itself goes on until the
// end, since such a gateway is never ready.
func startBare(ctx context.Context, m *mesh.Mesh, ends *ends) error {
	starting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.Start(starting)
	}()
	ends.add(func() {
		cancel()
		<-ended
	})
	return eventually(ctx, func() error {
		return (&door{rest: m.URL(ctx)}).get(ctx, "/kvmesh/v1/workers", &view{})
	})
}

// hooks puts a slow or dead service in the place of the tokenizer or the template service.
func (o one) hooks(s casetest.Setup, cfg *mesh.Config, only []string, ends *ends) ([]string, error) {
	delay := func(name string, ms int, down bool, address *string) error {
		if ms == 0 && !down {
			return nil
		}
		only = without(only, name)
		behind, err := o.ports.take()
		if err != nil {
			return err
		}
		*address = tcp(behind)
		if down {
			return nil
		}
		side, err := mesh.New(*cfg, mesh.Deps{Log: slog.New(slog.DiscardHandler), Only: []string{name}})
		if err != nil {
			return err
		}
		if err := startMesh(context.Background(), side, true, ends); err != nil {
			return err
		}
		front, err := startSlow(local(behind), after(time.Duration(ms)*time.Millisecond))
		if err != nil {
			return err
		}
		ends.add(front.stop)
		*address = "tcp://" + front.addr
		return nil
	}
	err := delay(mesh.Tokenizer, s.TokenizerDelayMS, s.TokenizerDown, &cfg.Tokenizer.Server.Address)
	if err == nil {
		err = delay(mesh.Template, s.TemplateDelayMS, s.TemplateDown, &cfg.Template.Server.Address)
	}
	return only, err
}

func without(list []string, name string) []string {
	var out []string
	for _, s := range list {
		if s != name {
			out = append(out, s)
		}
	}
	return out
}

// gauge is the value of a metric of the mesh.
func gauge(m *mesh.Mesh, name string) int {
	families, err := m.Gather()
	if err != nil {
		return 0
	}
	for _, f := range families {
		if f.GetName() == name {
			return int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	return 0
}

// ends is what is undone in reverse order, once.
type ends struct{ list []func() }

func (e *ends) add(f func()) { e.list = append(e.list, f) }

func (e *ends) run() {
	for i := len(e.list) - 1; i >= 0; i-- {
		e.list[i]()
	}
	e.list = nil
}
