package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kvmesh/kvmesh/services/kit/obs"
)

// healthPoll is the pause between two questions of --wait.
const healthPoll = 100 * time.Millisecond

// askLimit bounds one question.
const askLimit = 3 * time.Second

// healthCommand is `kvmesh health`.
type healthCommand struct {
	Address string        `arg:"" optional:"" help:"Admin address." default:"tcp://127.0.0.1:8082"`
	Wait    time.Duration `help:"Keep asking for this long until it is ready."`
}

// Run asks until the answer is good or the time is over.
func (c *healthCommand) Run(ctx context.Context, p *Process) error {
	address := c.Address
	if rest, ok := strings.CutPrefix(address, "http://"); ok {
		address = "tcp://" + strings.TrimSuffix(rest, "/")
	}
	ctx, cancel := context.WithTimeout(ctx, max(c.Wait, askLimit))
	defer cancel()
	for {
		err := askOnce(ctx, address)
		if err == nil {
			_, err = fmt.Fprintln(p.Stdout, "ready")
			return err
		}
		if c.Wait == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(healthPoll):
		}
	}
}

func askOnce(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return obs.CheckReady(ctx, address)
}
