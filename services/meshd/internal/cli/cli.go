// Package cli is the command line of the binary kvmesh: it hosts every service, and the tools for people who run or
// debug a mesh.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc/grpclog"

	"github.com/kvmesh/kvmesh/scheduler-svc/sim"
	"github.com/kvmesh/kvmesh/services/kit/boot"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/obs"
	"github.com/kvmesh/kvmesh/template-svc/templatecli"
	"github.com/kvmesh/kvmesh/tokenizer-svc/tokenizercli"
	"github.com/kvmesh/kvmesh/worker-adapter/doctor"
	"github.com/kvmesh/kvmesh/worker-adapter/paritycli"

	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// grammar is the command line.
type grammar struct {
	Up      upCommand      `cmd:"" help:"Start a whole mesh as one process (or, with --mesh, as one process per service)."`
	Serve   serveCommand   `cmd:"" help:"Run one service alone, as its own binary would."`
	Health  healthCommand  `cmd:"" help:"Ask a running mesh or service whether it is ready."`
	Config  configCommand  `cmd:"" help:"Print the effective configuration without secrets, or the reference of all keys."`
	Version versionCommand `cmd:"" help:"Print the version."`

	Models  modelsCommand  `cmd:"" group:"Ask a running mesh" help:"List the models that are served."`
	Workers workersCommand `cmd:"" group:"Ask a running mesh" help:"List the workers: state, events, load, units held."`
	Route   routeCommand   `cmd:"" group:"Ask a running mesh" help:"Say where a request would go and why, without sending it."`
	Receipt receiptCommand `cmd:"" group:"Ask a running mesh" help:"Show the receipt of a request by its id."`

	Sim      sim.Command          `cmd:"" group:"Tools" help:"Replay a trace through the routing policies and simulated workers."`
	SimLive  simLiveCommand       `cmd:"" group:"Tools" name:"sim-live" help:"Replay a slice of a trace through simulator and a live mesh, and compare the order of the policies."`
	Template templatecli.Command  `cmd:"" group:"Tools" help:"Render chat templates as vLLM does."`
	Tokenize tokenizercli.Command `cmd:"" group:"Tools" help:"Turn text into token ids."`
	Doctor   doctor.Command       `cmd:"" group:"Tools" help:"Examine vLLM workers: what kvmesh can use, and what to change."`
	Parity   paritycli.Command    `cmd:"" group:"Tools" help:"Compare kvmesh's prompts with a worker's own."`
	Fakevllm fakeCommand          `cmd:"" group:"Tools" name:"fakevllm" help:"Run one simulated vLLM worker."`
}

// Process is the surroundings of one run.
type Process struct {
	Args, Environ  []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Signals ask for a stop: the first in an orderly way, the second at once.
	Signals <-chan os.Signal
	// OnMemory is told a server's memory settings; nil ignores them.
	OnMemory func(obs.MemoryConfig)
}

// Main runs the process's own command line and returns its exit code.
func Main() int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	return Run(context.Background(), Process{
		Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals,
		OnMemory: func(c obs.MemoryConfig) { c.Apply(os.Environ()) },
	})
}

// exitRequest carries kong's wish to exit (after --help) out of Parse.
type exitRequest int

// Run is Main with everything passed in.
func Run(ctx context.Context, p Process) (code int) {
	defer func() {
		if r := recover(); r != nil {
			wish, ok := r.(exitRequest)
			if !ok {
				panic(r)
			}
			code = int(wish)
		}
	}()
	var g grammar
	parser, err := kong.New(&g, kong.Name("kvmesh"), kong.UsageOnError(),
		kong.Description("An OpenAI-compatible door in front of plain vLLM workers, routed by their real KV caches."),
		kong.Writers(p.Stdout, p.Stderr), kong.Exit(func(c int) { panic(exitRequest(c)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		fmt.Fprintln(p.Stderr, "kvmesh:", err)
		return exitFailed
	}
	parsed, err := parser.Parse(p.Args)
	if err != nil {
		fmt.Fprintf(p.Stderr, "kvmesh: %v; see kvmesh --help\n", err)
		return exitUsage
	}
	return run(ctx, parsed, &p)
}

// run gives the chosen command what it asks for. Tools end with the first signal; servers drain by themselves.
func run(ctx context.Context, parsed *kong.Context, p *Process) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.Bind(p, &canceller{signals: p.Signals, cancel: cancel})
	parsed.Bind(templatecli.IO{In: p.Stdin, Out: p.Stdout}, tokenizercli.IO{In: p.Stdin, Out: p.Stdout})
	if !serves(parsed.Command()) {
		go (&canceller{signals: p.Signals, cancel: cancel}).wait(ctx)
	}
	err := parsed.Run()
	var code exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(p.Stderr, "kvmesh:", sentence(err))
	return exitFailed
}

// serves reports whether a command handles signals itself.
func serves(command string) bool {
	return command == "up" || len(command) >= 5 && command[:5] == "serve"
}

// canceller ends a context with the first signal.
type canceller struct {
	signals <-chan os.Signal
	cancel  context.CancelCauseFunc
}

// wait returns with the first signal or with ctx.
func (c *canceller) wait(ctx context.Context) {
	select {
	case s := <-c.signals:
		c.cancel(fmt.Errorf("stopped by %s", s))
	case <-ctx.Done():
	}
}

// exitError is an exit code whose reason has been printed already.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// sentence gives a fault's own message, without codes and causes.
func sentence(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Message
	}
	return err.Error()
}

// logger makes a server's logger and applies its memory settings. What it returns last writes what waits.
func (p *Process) logger(cfg mesh.Config) (*slog.Logger, func()) {
	if p.OnMemory != nil {
		p.OnMemory(cfg.Memory)
	}
	out := obs.NewLogWriter(p.Stderr, cfg.Log.Flush)
	log := obs.NewLogger(cfg.Log, out, "") // each part adds its name
	quietGRPC(log.With("service", "mesh"))
	return log, out.Close
}

// quietGRPC sends grpc's own log lines to the logger, at debug for what is normal.
func quietGRPC(log *slog.Logger) { grpclog.SetLoggerV2(obs.GRPCLogger(log)) }

// versionCommand is `kvmesh version`.
type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(p *Process) error {
	_, err := fmt.Fprintln(p.Stdout, boot.Version())
	return err
}
