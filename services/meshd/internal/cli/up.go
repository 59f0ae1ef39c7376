package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kvmesh/kvmesh/services/kit/lifecycle"
	"github.com/kvmesh/kvmesh/services/kit/obs"

	"github.com/kvmesh/kvmesh/services/meshd/internal/supervise"
	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

// tellEvery is the pause between looks at what a start waits for; a mesh with files at hand is ready before the first.
const tellEvery = 3 * time.Second

// upCommand is `kvmesh up`.
type upCommand struct {
	fileFlags
	Mesh    bool `help:"One process per service, over TCP with a real NATS server, as deploy/compose/compose.yaml names them."`
	Verbose bool `short:"v" help:"Show every service's log lines, not only warnings."`
}

// Run starts the mesh, greets, and serves until a signal.
func (c *upCommand) Run(ctx context.Context, p *Process) error {
	if c.Mesh {
		if c.Config != "" || len(c.Set) > 0 {
			return errors.New("--mesh starts what deploy/config/mesh.yaml describes: leave out --config, $KVMESH_CONFIG and " +
				"--set, and set that file's variables")
		}
		return supervise.Run(ctx, supervise.Options{
			Out: p.Stdout, Errors: p.Stderr, Signals: p.Signals, Verbose: c.Verbose,
		})
	}
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	if !c.Verbose && c.Config == "" {
		cfg.Log.Level = "warn"
	}
	log, closeLog := p.logger(cfg)
	defer closeLog()
	tracer, endTraces, err := obs.NewTracer(ctx, cfg.Trace, "mesh")
	if err != nil {
		return err
	}
	defer sendTraces(ctx, endTraces)
	m, err := mesh.New(cfg, mesh.Deps{Log: log, Tracer: tracer})
	if err != nil {
		return err
	}
	h := &host{mesh: m, log: log.With("service", "mesh"), process: p}
	h.ready = func() {
		greet(p.Stdout, greeting{
			url: browsable(m.URL(ctx)), grpc: m.Config().Gateway.Server.Address, admin: browsable(h.admin.Addr()), models: models(m.Config()),
			workers: h.workers(),
		})
	}
	return h.run(ctx)
}

// sendTraces sends what is left of the traces.
func sendTraces(ctx context.Context, end func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
	defer cancel()
	_ = end(ctx)
}

// host runs a mesh and its admin server.
type host struct {
	mesh     *mesh.Mesh
	log      *slog.Logger
	process  *Process
	admin    *obs.Admin
	ready    func() // called once everything is ready
	stopping atomic.Bool
}

// run serves until a signal or a failure, then drains.
func (h *host) run(ctx context.Context) error {
	cfg := h.mesh.Config()
	var err error
	h.admin, err = obs.NewAdmin(cfg.Mesh.Admin, obs.AdminDeps{Log: h.log, Gatherer: h.mesh, NotReady: h.notReady})
	if err != nil {
		return err
	}
	if err := h.admin.Start(ctx); err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
		defer cancel()
		_ = h.admin.Stop(end)
	}()
	fmt.Fprintln(h.process.Stdout, "starting …")
	if done, err := h.start(ctx); done || err != nil {
		return err
	}
	h.ready()
	return h.wait(ctx)
}

// start brings the mesh up; a signal meanwhile ends it, and done is true. It waits as long as it takes, and says for
// what: files may come from a slow disk or a hub, and workers when they like.
func (h *host) start(ctx context.Context) (done bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- h.mesh.Start(ctx) }() // ends with cancel at the latest
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	said := ""
	for {
		select {
		case err := <-started:
			return false, err
		case <-tick.C:
			if now := waitsFor(h.mesh.NotReady(ctx)); now != said {
				said = now
				fmt.Fprintln(h.process.Stdout, now)
			}
		case <-h.process.Signals:
			h.stopping.Store(true)
			cancel()
			<-started //nolint:errcheck // the start was given up; what it says no longer matters
			fmt.Fprintln(h.process.Stdout, "stopped while starting")
			return true, nil
		}
	}
}

// waitsFor says what a start still waits for: the first part that is not ready, since parts start in that order.
func waitsFor(parts []lifecycle.NotReady) string {
	switch len(parts) {
	case 0:
		return "waiting for the last part"
	case 1:
		return fmt.Sprintf("waiting for %s: %s", parts[0].Name, parts[0].Why)
	default:
		return fmt.Sprintf("waiting for %s: %s; %d more follow", parts[0].Name, parts[0].Why, len(parts)-1)
	}
}

// wait serves until something ends it. The second signal ends the drain.
func (h *host) wait(ctx context.Context) error {
	var failure error
	select {
	case <-h.process.Signals:
		fmt.Fprintln(h.process.Stdout, "stopping; press Ctrl-C again to stop at once")
	case <-ctx.Done():
	case <-h.mesh.Done():
		failure = h.mesh.Err()
	}
	h.stopping.Store(true)
	stop, now := context.WithCancel(context.WithoutCancel(ctx))
	defer now()
	stopped := make(chan error, 1)
	go func() { stopped <- h.mesh.Stop(stop) }() // ends within the graces, at once after now
	for {
		select {
		case err := <-stopped:
			return errors.Join(failure, err)
		case <-h.process.Signals:
			now()
		}
	}
}

// notReady is what /readyz lists.
func (h *host) notReady(ctx context.Context) []lifecycle.NotReady {
	if h.stopping.Load() {
		return []lifecycle.NotReady{{Name: "mesh", Why: "the process is stopping"}}
	}
	return h.mesh.NotReady(ctx)
}

// workers lists ids and addresses.
func (h *host) workers() []string {
	var out []string
	cfg := h.mesh.Config()
	for _, w := range cfg.Mesh.Workers {
		line := w.ID + " at " + h.mesh.WorkerURL(w.ID)
		if cfg.IsSimulated(w.ID) {
			line += " (simulated)"
		}
		out = append(out, line)
	}
	return out
}

func models(cfg mesh.Config) []string {
	var out []string
	for _, m := range cfg.Template.Own.Models {
		out = append(out, m.Name)
	}
	return out
}

// greeting is what a user needs to know of a mesh that has started.
type greeting struct {
	url, grpc, admin string
	models, workers  []string
}

// greet prints the addresses and a line that works when pasted.
func greet(out io.Writer, g greeting) {
	model := "MODEL"
	if len(g.models) > 0 {
		model = g.models[0]
	}
	fmt.Fprintf(out, `kvmesh is ready
  REST     %s/v1
  gRPC     %s
  admin    %s (a dashboard; /readyz, /metrics)
  models   %s
  workers  %s

Try it:
  curl %s/v1/chat/completions -H 'Content-Type: application/json' -d '{"model": "%s", "messages": [{"role": "user", "content": "Hello"}]}'

Ctrl-C stops it.
`, g.url, g.grpc, g.admin, strings.Join(g.models, ", "), strings.Join(g.workers, "\n           "), g.url, model)
}

// browsable is a listener's address as a client on this machine types it: one that listens everywhere is reached on
// loopback. A Unix socket's stays as it is.
func browsable(address string) string {
	if rest, ok := strings.CutPrefix(address, "tcp://"); ok {
		address = "http://" + rest
	}
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" {
		return address
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	}
	return u.String()
}
