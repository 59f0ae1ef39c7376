package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Report is everything one invocation measured.
type Report struct {
	Tables   []*Table           `json:"tables"`
	Measures map[string]float64 `json:"measures,omitempty"` // of the default policy, what goals are stated in
	Goals    []GoalResult       `json:"goals,omitempty"`
}

// WriteJSON writes the report as one JSON document. Map keys are sorted, so equal runs give equal bytes.
func (r *Report) WriteJSON(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// WriteText writes the tables, a summary over cells, the measures and the goals.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, t := range r.Tables {
		t.text(&b)
	}
	if len(r.Tables) > 1 {
		r.summary(&b)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Measures)) {
		fmt.Fprintf(&b, "measure %-36s %8.3f\n", name, r.Measures[name])
	}
	for _, g := range r.Goals {
		fmt.Fprintf(&b, "goal    %-36s %s\n", g.Measure, g.verdict())
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (t *Table) text(b *strings.Builder) {
	fmt.Fprintf(b, "\ncell %s: %s\n", t.Cell, t.Note)
	fmt.Fprintf(b, "  %d workers of %s, %d KV tokens each, speed-up %g, spread %g s, seed %d, %d runs of %d requests\n",
		t.Workers, t.Profile, t.KVTokens, t.Speedup, t.SpreadS, t.Seed, t.Runs, t.Requests)
	fmt.Fprintf(b, "  hit bounds: infinite %.4f, pooled LRU %.4f, one pooled worker %.4f; no-queue TTFT p90 %.3f s\n",
		t.HInf, t.HLRU, t.HPooled, t.FloorP90S)
	if t.Overload {
		b.WriteString("  overload: judged apart\n")
	}
	fmt.Fprintf(b, "  %-16s %39s %15s %7s %7s %6s %6s %5s %13s %8s %7s\n", "policy", "TTFT s mean    p50    p90    p99",
		"TPOT ms p50  p90", "good", "good/s", "hit", "eta", "cv", "regret  p90", "preempt", "failed")
	for _, x := range t.Rows {
		fmt.Fprintf(b, "  %-16s %14.3f %7.3f %7.3f %8.3f %9.1f %6.1f %7.3f %7.2f %6.4f %6.3f %5.2f %6.3f %6.3f %8d %7d\n",
			x.Policy, x.TTFT.Mean, x.TTFT.P50, x.TTFT.P90, x.TTFT.P99, 1e3*x.TPOT.P50, 1e3*x.TPOT.P90, x.Goodput,
			x.GoodputPerS, x.Hit, x.Eta, x.CV, x.RegretMean, x.RegretP90, x.Preempted, x.Failed)
	}
}

// summary is mean TTFT by policy and cell, with the largest regret of each policy below saturation and in overload.
func (r *Report) summary(b *strings.Builder) {
	b.WriteString("\nmean TTFT in s\n  policy          ")
	for _, t := range r.Tables {
		fmt.Fprintf(b, " %8s", t.Cell)
	}
	b.WriteString("   regret mean / p90   overload\n")
	for _, row := range r.Tables[0].Rows {
		fmt.Fprintf(b, "  %-16s", row.Policy)
		for _, t := range r.Tables {
			if x := t.Row(row.Policy); x != nil {
				fmt.Fprintf(b, " %8.3f", x.TTFT.Mean)
				continue
			}
			b.WriteString("        -")
		}
		below, over := r.regret(row.Policy, false), r.regret(row.Policy, true)
		fmt.Fprintf(b, " %9.3f %9.3f %9.3f %7.3f\n", below[0], below[1], over[0], over[1])
	}
}

// regret returns the largest regret of the policy over the cells that count: of mean and of p90 TTFT.
func (r *Report) regret(name string, overload bool) [2]float64 {
	var worst [2]float64
	for _, t := range r.Tables {
		if x := t.Row(name); x != nil && !t.Apart && t.Overload == overload {
			worst[0], worst[1] = max(worst[0], x.RegretMean), max(worst[1], x.RegretP90)
		}
	}
	return worst
}
