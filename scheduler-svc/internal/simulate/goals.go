package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

// Goal is a stated bound on a measure of the default policy. Exactly one of AtMost and AtLeast is set.
type Goal struct {
	Measure string   `json:"measure"`
	AtMost  *float64 `json:"at_most,omitempty"`
	AtLeast *float64 `json:"at_least,omitempty"`
	Met     bool     `json:"met"` // stated: losing a met goal is a failure
	Why     string   `json:"why,omitempty"`
}

// GoalResult is a goal and what was measured.
type GoalResult struct {
	Goal
	Value  float64 `json:"value"`
	Passes bool    `json:"passes"`
}

// Lost reports a goal that was met and is not any more.
func (g GoalResult) Lost() bool { return g.Met && !g.Passes }

func (g GoalResult) verdict() string {
	bound := ""
	if g.AtMost != nil {
		bound = fmt.Sprintf("%.3f, at most %.3f", g.Value, *g.AtMost)
	} else {
		bound = fmt.Sprintf("%.3f, at least %.3f", g.Value, *g.AtLeast)
	}
	switch {
	case g.Lost():
		return "LOST    " + bound
	case g.Passes && !g.Met:
		return "reached " + bound + " (stated as not met)"
	case g.Passes:
		return "met     " + bound
	}
	return "missed  " + bound + ": " + g.Why
}

// ReadGoals reads a list of goals. Unknown fields and goals without one bound are errors.
func ReadGoals(r io.Reader) ([]Goal, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var goals []Goal
	if err := d.Decode(&goals); err != nil {
		return nil, fmt.Errorf("read goals: %w", err)
	}
	for i, g := range goals {
		if g.Measure == "" || (g.AtMost == nil) == (g.AtLeast == nil) {
			return nil, fmt.Errorf("read goals: goal %d needs a measure and one bound", i+1)
		}
	}
	return goals, nil
}

// Check measures the default policy and judges the goals. The error names every lost goal and every measure that does
// not exist.
func (r *Report) Check(goals []Goal) error {
	r.Measure()
	var errs []error
	for _, g := range goals {
		value, ok := r.Measures[g.Measure]
		if !ok {
			errs = append(errs, fmt.Errorf("goal names unknown measure %q", g.Measure))
			continue
		}
		x := GoalResult{Goal: g, Value: value}
		x.Passes = g.AtMost != nil && value <= *g.AtMost || g.AtLeast != nil && value >= *g.AtLeast
		r.Goals = append(r.Goals, x)
		if x.Lost() {
			errs = append(errs, fmt.Errorf("goal lost: %s is %s", g.Measure, x.verdict()))
		}
	}
	return errors.Join(errs...)
}

// Measure fills the measures of the default policy from the cells.
func (r *Report) Measure() {
	m := make(map[string]float64)
	below, over := r.regret(policy.Default, false), r.regret(policy.Default, true)
	m["regret_mean_below_saturation"], m["regret_p90_below_saturation"] = below[0], below[1]
	m["regret_mean_overload"], m["regret_p90_overload"] = over[0], over[1]
	for _, t := range r.Tables {
		t.measure(m)
	}
	r.Measures = m
}

func (t *Table) measure(m map[string]float64) {
	own := t.Row(policy.Default)
	if own == nil {
		return
	}
	ratio := func(name, rival string, of func(*Result) float64) {
		if x := t.Row(rival); x != nil {
			m[t.Cell+"_"+name] = of(own) / of(x)
		}
	}
	meanTTFT := func(x *Result) float64 { return x.TTFT.Mean }
	switch t.Cell {
	case "C", "C'":
		ratio("ttft_vs_lmetric", "lmetric", meanTTFT)
		ratio("goodput_vs_lmetric", "lmetric", func(x *Result) float64 { return x.Goodput })
	case "H":
		ratio("ttft_vs_round_robin", "round-robin", meanTTFT)
		return
	case "N", "N'":
		ratio("ttft_vs_least_tokens", "least-tokens", meanTTFT)
		return
	case "B2B":
		m["B2B_last_p90_vs_floor"] = own.LastStage.P90 / t.FloorP90S
	}
	m[t.Cell+"_regret_mean"], m[t.Cell+"_regret_p90"] = own.RegretMean, own.RegretP90
	m[t.Cell+"_eta"], m[t.Cell+"_cv"] = own.Eta, own.CV
	m[t.Cell+"_hit_vs_pooled_worker"] = own.Hit / t.HPooled
}
