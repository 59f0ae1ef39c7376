// Package sim is the policy simulator as a command: what would this policy, this many workers, this cache size do to
// that traffic? It runs the live policies against a model of vLLM's engine in virtual time.
package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/simulate"
)

// Command replays one trace, or all cells of the published tables, under several policies. It mounts into a kong
// grammar. One of --trace, --cells and --goals says what to replay.
type Command struct {
	Trace    string             `help:"Trace in Mooncake's format, or a mesh's request log (scheduler.receipts.requests)." type:"path"`
	Model    string             `help:"Of a request log of several models, replay the requests of this one."`
	Cells    bool               `help:"Run the cells of the published tables instead of one trace."`
	Only     []string           `help:"Of the cells, run these alone; goals on others are then unknown measures."`
	Goals    string             `help:"File of goals to check; runs the cells, and a lost goal is an error." type:"path"`
	Corpus   string             `help:"Folder of the shared corpus." env:"KVMESH_CORPUS" default:"../shared/corpus" type:"path"`
	Policies []string           `help:"Policies to compare; all when empty."`
	Option   map[string]float64 `help:"Parameter of a policy, such as cost_eviction_price=2; docs/policies.md lists them. May be repeated."`
	Workers  int                `help:"Workers in the pool." default:"8"`
	KVTokens int                `name:"kv-tokens" help:"Cache of one worker in tokens; 0 is the profile's."`
	Speedup  float64            `help:"Divides the trace's arrival times." default:"1"`
	Profile  string             `help:"Kind of worker." default:"h100x2-qwen3-32b"`
	Seed     uint64             `help:"Seed of everything random." default:"1"`
	Spread   float64            `help:"Seconds over which each arrival is delayed at random, in the trace's time."`
	Poll     time.Duration      `help:"Period of the workers' load reports." default:"50ms"`
	JSON     bool               `name:"json" help:"Print JSON instead of tables."`
	Plot     string             `help:"Write an SVG plot to this file." type:"path"`

	// Out receives the report; standard output when nil.
	Out io.Writer `kong:"-"`
}

// Run simulates, prints the report and writes the plot. The error names every goal that was lost.
func (c *Command) Run(ctx context.Context) error {
	plan, err := c.plan()
	if err != nil {
		return err
	}
	cells, err := c.cells(plan.Seed)
	if err != nil {
		return err
	}
	report := &simulate.Report{}
	for _, cell := range cells {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
		t, err := simulate.Compare(ctx, cell, plan)
		if err != nil {
			return err
		}
		report.Tables = append(report.Tables, t)
	}
	lost, err := c.check(report)
	if err != nil {
		return err
	}
	if err := c.write(report); err != nil {
		return err
	}
	return lost
}

func (c *Command) plan() (simulate.Plan, error) {
	profile, err := simulate.ProfileNamed(c.Profile)
	if err != nil {
		return simulate.Plan{}, err
	}
	plan := simulate.Plan{
		Policies: c.Policies, Options: policy.DefaultOptions(), Profile: profile,
		Workers: c.Workers, Seed: c.Seed, Poll: c.Poll,
	}
	if len(plan.Policies) == 0 {
		plan.Policies = policy.Names()
	}
	var errs []error
	if err := plan.Options.Override(c.Option); err != nil {
		errs = append(errs, fmt.Errorf("--option: %w", err))
	}
	for _, name := range plan.Policies {
		if _, err := policy.New(name, plan.Options); err != nil {
			errs = append(errs, err)
		}
	}
	require := func(holds bool, format string, args ...any) {
		if !holds {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(c.Workers >= 1 && c.Workers <= maxWorkers, "--workers %d is not in 1 to %d", c.Workers, maxWorkers)
	require(c.KVTokens >= 0 && c.KVTokens <= maxKVTokens, "--kv-tokens %d is not in 0 to %d", c.KVTokens, maxKVTokens)
	require(c.Speedup >= 1/maxSpeedup && c.Speedup <= maxSpeedup, "--speedup %g is not in %g to %g", c.Speedup, 1/maxSpeedup, maxSpeedup)
	require(c.Spread >= 0 && c.Spread <= maxSpreadS, "--spread %g is not in 0 to %d seconds", c.Spread, maxSpreadS)
	require(c.Poll > 0, "--poll %s is not positive", c.Poll)
	require(len(c.Only) == 0 || c.Trace == "", "--only is of cells, --trace is none")
	return plan, errors.Join(errs...)
}

// Bounds that keep memory and time finite: a trace's years times the slowest replay fit into a Duration.
const (
	maxWorkers  = 1024
	maxKVTokens = 1 << 40
	maxSpreadS  = 86_400
	maxSpeedup  = 1e6
	maxReplay   = 100 * 365 * 24 * time.Hour
)

func (c *Command) cells(seed uint64) ([]simulate.Cell, error) {
	all := c.Cells || c.Goals != ""
	switch {
	case all && c.Trace != "":
		return nil, errors.New("--trace and --cells or --goals exclude each other")
	case all:
		return simulate.Cells(c.Corpus, seed, c.Only...)
	case c.Trace == "":
		return nil, errors.New("nothing to simulate: give --trace, --cells or --goals")
	}
	w, err := simulate.Load(c.Trace, c.Model)
	if err != nil {
		return nil, err
	}
	if took := float64(w.Span()) / c.Speedup; took > float64(maxReplay) {
		return nil, fmt.Errorf("--speedup %g makes the trace %g years long", c.Speedup, took/float64(365*24*time.Hour))
	}
	spread := time.Duration(c.Spread * float64(time.Second))
	return []simulate.Cell{{
		Name: strings.TrimSuffix(w.Name, ".jsonl"), Note: "one trace", KVTokens: c.KVTokens,
		Speedup: c.Speedup, Spread: spread,
		Workloads: []*simulate.Workload{w.Spread(spread, seed).Speedup(c.Speedup)},
	}}, nil
}

// check judges the goals. The first error is the goals that were lost, the second that they could not be read.
func (c *Command) check(r *simulate.Report) (lost, err error) {
	if c.Goals == "" {
		if c.Cells {
			r.Measure()
		}
		return nil, nil
	}
	f, err := os.Open(c.Goals)
	if err != nil {
		return nil, fmt.Errorf("open goals: %w", err)
	}
	defer func() { _ = f.Close() }()
	goals, err := simulate.ReadGoals(f)
	if err != nil {
		return nil, err
	}
	return r.Check(goals), nil
}

func (c *Command) write(r *simulate.Report) error {
	out := c.Out
	if out == nil {
		out = os.Stdout
	}
	write := r.WriteText
	if c.JSON {
		write = r.WriteJSON
	}
	if err := write(out); err != nil {
		return err
	}
	if c.Plot == "" {
		return nil
	}
	f, err := os.Create(c.Plot)
	if err != nil {
		return fmt.Errorf("create plot: %w", err)
	}
	return errors.Join(r.WriteSVG(f, policy.Default), f.Close())
}
