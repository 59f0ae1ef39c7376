// Command fakevllm runs one simulated vLLM worker.
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
	var cmd fakevllm.Command
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k := kong.Parse(&cmd, kong.Name("fakevllm"), kong.Description("A simulated vLLM worker: no GPU, no model."),
		kong.BindTo(ctx, (*context.Context)(nil)))
	k.FatalIfErrorf(k.Run())
}
