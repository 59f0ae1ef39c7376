package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kvmesh/kvmesh/services/kit/obs"

	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

// serveCommand is `kvmesh serve`: the chosen components of the file, the others being reached at their addresses.
type serveCommand struct {
	fileFlags
	Services []string `arg:"" help:"Components to run: template, tokenizer, scheduler, gateway, worker-<id>, simulated-<id>."`
}

// Run serves the components until a signal.
func (c *serveCommand) Run(ctx context.Context, p *Process) error {
	if c.Config == "" {
		return errors.New("give --config FILE: a service alone needs the addresses of the others")
	}
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	log, closeLog := p.logger(cfg)
	defer closeLog()
	tracer, endTraces, err := obs.NewTracer(ctx, cfg.Trace, "mesh")
	if err != nil {
		return err
	}
	defer sendTraces(ctx, endTraces)
	m, err := mesh.New(cfg, mesh.Deps{Log: log, Tracer: tracer, Only: c.Services})
	if err != nil {
		return err
	}
	h := &host{mesh: m, log: log.With("service", "mesh"), process: p, ready: func() {
		fmt.Fprintf(p.Stdout, "serving %s\n", strings.Join(c.Services, ", "))
	}}
	return h.run(ctx)
}
