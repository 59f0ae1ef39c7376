package cli

import (
	"context"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// fakeCommand is `kvmesh fakevllm`: the simulated worker's own command.
type fakeCommand struct {
	fakevllm.Command
}

// Run serves one simulated worker until a signal.
func (c *fakeCommand) Run(ctx context.Context) error { return c.Command.Run(ctx) }
