// Command fakevllm runs one simulated vLLM worker, or asks a running one for its health.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

func main() {
	var cmd struct {
		Serve  fakevllm.Command       `cmd:"" default:"withargs" help:"Run the worker (what is run without a command)."`
		Health fakevllm.HealthCommand `cmd:"" help:"Ask the worker of this configuration whether it serves."`
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k := kong.Parse(&cmd, kong.Name("fakevllm"), kong.Description("A simulated vLLM worker: no GPU, no model."),
		kong.BindTo(ctx, (*context.Context)(nil)))
	k.FatalIfErrorf(k.Run())
}
