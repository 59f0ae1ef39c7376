// Command sim is the policy simulator on its own; `kvmesh sim` is the same.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/kvmesh/kvmesh/scheduler-svc/sim"
)

func main() {
	var cmd sim.Command
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k := kong.Parse(&cmd, kong.Name("sim"), kong.Description("Routing policies on request traces, in virtual time."),
		kong.BindTo(ctx, (*context.Context)(nil)))
	k.FatalIfErrorf(k.Run())
}
