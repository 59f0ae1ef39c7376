package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/kvmesh/kvmesh/services/meshd/internal/simlive"
	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

// simLiveCommand is `kvmesh sim-live`.
type simLiveCommand struct {
	fileFlags
	Trace     string        `required:"" help:"Trace in Mooncake's format." type:"path"`
	Requests  int           `help:"Requests of the trace to play." default:"80"`
	MaxOutput int           `help:"Longest answer in tokens; longer ones are cut, in both." default:"64"`
	Arrivals  float64       `help:"Divides the trace's arrival times." default:"4"`
	Spread    time.Duration `help:"Time over which each arrival is delayed at random, in the trace's time." default:"3s"`
	Policies  []string      `help:"Policies to compare." default:"round-robin,least-requests,longest-prefix,lmetric,cost"`
	Workers   int           `help:"Simulated workers." default:"8"`
	KVTokens  int           `name:"kv-tokens" help:"Cache of one worker in tokens." default:"307200"`
	Profile   string        `help:"Kind of worker." default:"h100x2-qwen3-32b"`
	Speedup   float64       `help:"The live workers run so many times as fast; the report is in their time." default:"1"`
	Rounds    int           `help:"Each policy is played so often, interleaved; its best round counts." default:"2"`
	Seed      uint64        `help:"Seed of everything random." default:"1"`
}

// Run compares and prints; an order that the mesh turns round is an error.
func (c *simLiveCommand) Run(ctx context.Context, p *Process) error {
	for _, n := range []struct {
		flag string
		ok   bool
	}{
		{"--requests", c.Requests > 0},
		{"--max-output", c.MaxOutput > 0},
		{"--arrivals", c.Arrivals > 0},
		{"--spread", c.Spread >= 0},
		{"--workers", c.Workers > 0 && c.Workers <= 64},
		{"--kv-tokens", c.KVTokens > 0},
		{"--speedup", c.Speedup > 0},
		{"--rounds", c.Rounds > 0},
	} {
		if !n.ok {
			return fmt.Errorf("%s is out of range", n.flag)
		}
	}
	c.Set = append([]string{
		"gateway.address=127.0.0.1:0", "gateway.server.address=mem://gateway", "mesh.admin.address=tcp://127.0.0.1:0",
		"gateway.quiet=true",
	}, c.Set...)
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	if len(cfg.Mesh.Simulated) == 0 {
		return fmt.Errorf("the configuration has no simulated worker to start from (mesh.simulated)")
	}
	got, err := simlive.Run(ctx, cfg, mesh.Deps{Log: slog.New(slog.DiscardHandler)}, simlive.Options{
		Trace: c.Trace, Policies: c.Policies, Workers: c.Workers, KVTokens: c.KVTokens, Profile: c.Profile, Speedup: c.Speedup,
		Rounds: c.Rounds,
		Slice: simlive.Slice{
			Requests: c.Requests, MaxOutput: c.MaxOutput, Spread: c.Spread, Arrivals: c.Arrivals, Seed: c.Seed,
		},
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "%d requests, arrivals x%g, %d workers of %s, %d KV tokens each, live workers x%g, policies %s\n",
		got.Requests, c.Arrivals, c.Workers, c.Profile, c.KVTokens, c.Speedup, strings.Join(c.Policies, ", "))
	if err := got.Write(p.Stdout); err != nil {
		return err
	}
	return got.Err()
}
