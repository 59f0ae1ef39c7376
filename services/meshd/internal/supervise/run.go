package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// meshConfig is the file that every process of the mesh reads.
const meshConfig = "deploy/config/mesh.yaml"

// workers is how many simulated workers `kvmesh up --mesh` starts, as the compose file does.
const workers = 2

// Options are what `kvmesh up --mesh` is told.
type Options struct {
	Out, Errors io.Writer
	// Signals end the mesh: the first in order, the second at once.
	Signals <-chan os.Signal
	// Verbose shows the processes' log lines.
	Verbose bool
}

// Run starts the mesh, greets, and serves until a signal.
func Run(ctx context.Context, o Options) error {
	if _, err := os.Stat(meshConfig); err != nil {
		return errors.New("there is no " + meshConfig + " here: start in the repository's root")
	}
	dir, err := binaries()
	if err != nil {
		return err
	}
	ports := DefaultPorts(workers)
	if err := ports.Free(); err != nil {
		return err
	}
	natsDir, err := os.MkdirTemp("", "kvmesh-nats-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(natsDir)
	log, closeLog, err := output(o)
	if err != nil {
		return err
	}
	set := New(dir, Table(ports, meshConfig, natsDir), log)
	err = set.Check()
	if err == nil {
		err = host(ctx, set, ports, o)
	}
	closeLog(err == nil)
	return err
}

// binaries is the folder of this binary, where the others are too.
func binaries() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Dir(self), nil
}

// output is where the processes write: the terminal, or a file that is kept only if something went wrong.
func output(o Options) (log io.Writer, closeLog func(clean bool), err error) {
	if o.Verbose {
		return o.Errors, func(bool) {}, nil
	}
	file, err := os.CreateTemp("", "kvmesh-mesh-*.log")
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(o.Out, "the services log to %s\n", file.Name())
	return file, func(clean bool) {
		file.Close()
		if clean {
			os.Remove(file.Name())
		}
	}, nil
}

// host runs the set until a signal.
func host(ctx context.Context, set *Set, ports Ports, o Options) error {
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	var tending sync.WaitGroup
	started := make(chan error, 1)
	go func() { started <- set.Start(work) }() // ends with cancel at the latest
	fmt.Fprintln(o.Out, "starting …")
	var failure error
	select {
	case failure = <-started:
	case <-o.Signals:
		cancel()
		<-started //nolint:errcheck // the start was given up; what it says no longer matters
	}
	if failure == nil && work.Err() == nil {
		greet(o.Out, ports)
		tending.Go(func() { set.Tend(work, func(text string) { fmt.Fprintln(o.Out, text) }) })
		select {
		case <-o.Signals:
		case <-ctx.Done():
		}
		fmt.Fprintln(o.Out, "stopping; press Ctrl-C again to stop at once")
	}
	cancel()
	tending.Wait()
	return errors.Join(failure, stopAll(ctx, set, o))
}

// stopAll ends the processes; a second signal kills them.
func stopAll(ctx context.Context, set *Set, o Options) error {
	stop, now := context.WithCancel(context.WithoutCancel(ctx))
	defer now()
	stopped := make(chan error, 1)
	go func() { stopped <- set.Stop(stop) }() // ends within the graces, at once after now
	for {
		select {
		case err := <-stopped:
			return err
		case <-o.Signals:
			now()
		}
	}
}

func greet(out io.Writer, p Ports) {
	url := "http://" + local(p.GatewayREST)
	fmt.Fprintf(out, `kvmesh is ready, one process per service
  REST     %s/v1
  gRPC     %s
  admin    http://%s (a dashboard; /readyz, /metrics); every service has its own
  workers  %d simulated

Try it:
  curl %s/v1/chat/completions -H 'Content-Type: application/json' -d '{"messages": [{"role": "user", "content": "Hello"}]}'

Ctrl-C stops it.
`, url, tcp(p.GatewayGRPC), local(p.GatewayAdm), len(p.Workers), url)
}
