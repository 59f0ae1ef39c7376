package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/learn"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

func config(t *testing.T, w *Workload, name string) Config {
	t.Helper()
	p, err := ProfileNamed("h100x2-qwen3-32b")
	require.NoError(t, err)
	return Config{
		Workload: w, Profile: p, Workers: 4, Policy: name, Options: policy.DefaultOptions(), Seed: 1, Poll: 50 * time.Millisecond,
	}
}

// TestEqualSeedsGiveEqualResults repeats every policy; ties and learning included.
func TestEqualSeedsGiveEqualResults(t *testing.T) {
	t.Parallel()
	w := HotGroup(1, 300)
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := Run(config(t, w, name))
			require.NoError(t, err)
			b, err := Run(config(t, w, name))
			require.NoError(t, err)
			require.Equal(t, a, b)
		})
	}
}

// TestEveryRequestEnds and is counted once, under every policy, with hits that were possible.
func TestEveryRequestEnds(t *testing.T) {
	t.Parallel()
	w := HotGroup(2, 300)
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, w, name)
			cfg.KVTokens = 60_000
			r, err := Run(cfg)
			require.NoError(t, err)
			require.Equal(t, w.Requests(), r.Requests)
			require.Zero(t, r.Failed)
			require.Positive(t, r.TTFT.Mean)
			require.LessOrEqual(t, r.TTFT.P50, r.TTFT.P90)
			require.LessOrEqual(t, r.TTFT.P90, r.TTFT.P99)
			require.LessOrEqual(t, r.Hit, PooledLRU(w, 0)+1e-9)
			require.LessOrEqual(t, r.Goodput, 1.0)
		})
	}
}

// TestTrueOutputLengthIsNotRead: two workloads that differ only in the answers of their last requests are routed alike
// until the first of those answers could have ended.
func TestTrueOutputLengthIsNotRead(t *testing.T) {
	t.Parallel()
	route := func(output int) []int {
		w := HotGroup(3, 60)
		for i := range w.Stages[0].Arrivals {
			w.Stages[0].Arrivals[i].Output = output
		}
		cfg := config(t, w, policy.Default)
		r, err := prepare(cfg)
		require.NoError(t, err)
		r.stage(&w.Stages[0])
		var out []int
		for i := range r.results {
			out = append(out, r.results[i].worker)
		}
		return out
	}
	require.Equal(t, route(4000), route(5000))
}

func TestPromptThatNeverFitsFails(t *testing.T) {
	t.Parallel()
	w := HotGroup(1, 10)
	w.Stages[0].Arrivals[4].Output = 1_000_000
	r, err := Run(config(t, w, "round-robin"))
	require.NoError(t, err)
	require.Equal(t, 1, r.Failed)
	require.Equal(t, 8, r.Requests)
	require.Less(t, r.Goodput, 1.0, "it is no good one")

	w.Stages[0].Arrivals = append(w.Stages[0].Arrivals[:4], w.Stages[0].Arrivals[5:]...)
	without, err := Run(config(t, w, "round-robin"))
	require.NoError(t, err)
	require.Equal(t, without.TTFT.Mean, r.TTFT.Mean, "what no policy can serve says nothing of one")
}

// TestATableOfPromptsThatFitNowhereIsWhole: also where nothing at all is served; every figure is a number that JSON knows.
func TestATableOfPromptsThatFitNowhereIsWhole(t *testing.T) {
	t.Parallel()
	for name, large := range map[string][]int{"one": {4}, "all": {0, 1, 2, 3, 4, 5, 6, 7}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := HotGroup(1, 10)
			for _, i := range large {
				w.Stages[0].Arrivals[i].Output = 1_000_000
			}
			cfg := config(t, w, "")
			table, err := Compare(t.Context(), Cell{Name: "x", Workloads: []*Workload{w}, Speedup: 1}, Plan{
				Policies: policy.Names(), Options: policy.DefaultOptions(), Profile: cfg.Profile, Workers: 2, Seed: 1, Poll: 50 * time.Millisecond,
			})
			require.NoError(t, err)
			var out, text bytes.Buffer
			r := &Report{Tables: []*Table{table}}
			require.NoError(t, r.WriteJSON(&out))
			require.NoError(t, r.WriteText(&text))
			require.NoError(t, r.WriteSVG(&text, policy.Default))
			require.NotContains(t, text.String(), "NaN")
			require.NotContains(t, text.String(), "Inf")
			for _, row := range table.Rows {
				require.Equal(t, len(large), row.Failed)
				require.GreaterOrEqual(t, row.RegretMean, 1.0)
			}
		})
	}
}

// TestAComparisonStopsBetweenRuns: a long one is given up at once.
func TestAComparisonStopsBetweenRuns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg := config(t, HotGroup(1, 10), "")
	_, err := Compare(ctx, Cell{Name: "x", Workloads: []*Workload{cfg.Workload}, Speedup: 1}, Plan{
		Policies: policy.Names(), Options: policy.DefaultOptions(), Profile: cfg.Profile, Workers: 2, Seed: 1, Poll: time.Second,
	})
	require.ErrorIs(t, err, context.Canceled)
}

func TestRunRefusesAPoolOfNothing(t *testing.T) {
	t.Parallel()
	cfg := config(t, HotGroup(1, 10), "round-robin")
	cfg.Workers = 0
	_, err := Run(cfg)
	require.ErrorContains(t, err, "0 workers")
	cfg = config(t, HotGroup(1, 10), "nearest")
	_, err = Run(cfg)
	require.ErrorContains(t, err, "nearest")
}

func TestStagesDrainAndPause(t *testing.T) {
	t.Parallel()
	one := HotGroup(1, 20)
	two := *one
	two.Stages = []Stage{{Arrivals: one.Stages[0].Arrivals, Pause: 100 * time.Second}, one.Stages[0]}
	cfg := config(t, &two, "least-requests")
	r, err := prepare(cfg)
	require.NoError(t, err)
	r.all()
	n := one.Requests()
	for i := range n {
		require.LessOrEqual(t, r.results[i].ended+100*time.Second, r.results[n].arrived)
	}
}

// TestPooledWorkerBoundsHits and no policy answers faster than a pool without queues.
func TestPooledWorkerBoundsHits(t *testing.T) {
	t.Parallel()
	w := HotGroup(4, 200)
	p, err := ProfileNamed("h100x2-qwen3-32b")
	require.NoError(t, err)
	table, err := Compare(t.Context(), Cell{Name: "H", Workloads: []*Workload{w, HotGroup(5, 200)}, Speedup: 1}, Plan{
		Policies: []string{"round-robin", "cost"}, Options: policy.DefaultOptions(), Profile: p, Workers: 4, Seed: 1,
		Poll: 50 * time.Millisecond,
	})
	require.NoError(t, err)
	require.LessOrEqual(t, table.HPooled, table.HInf+1e-9)
	require.InDelta(t, table.HInf, table.HLRU, 1e-9, "everything fits")
	best := math.Inf(1)
	for _, row := range table.Rows {
		require.Greater(t, row.TTFT.P90, table.FloorP90S)
		require.LessOrEqual(t, row.Hit, table.HPooled+1e-9)
		require.InDelta(t, row.Hit/table.HLRU, row.Eta, 1e-12)
		best = min(best, row.TTFT.Mean)
	}
	for _, row := range table.Rows {
		require.InDelta(t, row.TTFT.Mean/best, row.RegretMean, 1e-12)
	}
	require.Nil(t, table.Row("nearest"))
}

// TestAWrongPriorIsCorrected: the learnt coefficients come near the profile's, and the policy near its own results with
// the truth.
func TestAWrongPriorIsCorrected(t *testing.T) {
	t.Parallel()
	w := NoPrefix(HotGroup(1, 600))
	cfg := config(t, w, policy.Default)
	cfg.Workers, cfg.KVTokens = 8, 3_000_000
	p := cfg.Profile
	truth := learn.Coefficients{StepS: p.StepS, PrefillS: p.PrefillS, SeqS: p.SeqS, KVS: p.KVS}
	cfg.Prior = learn.Coefficients{StepS: 3 * p.StepS, PrefillS: 3 * p.PrefillS, SeqS: 3 * p.SeqS, KVS: 3 * p.KVS}
	r, err := prepare(cfg)
	require.NoError(t, err)
	r.all()
	for i := range r.router.targets {
		got := r.router.targets[i].ledger.Model().Coefficients()
		require.InEpsilon(t, truth.PrefillS, got.PrefillS, 0.35)
		require.InEpsilon(t, truth.DecodeStepS(20, 200_000), got.DecodeStepS(20, 200_000), 0.35)
	}
}

func TestQuantilesTakeTheValueAtTheFloor(t *testing.T) {
	t.Parallel()
	x := make([]float64, 100)
	for i := range x {
		x[i] = float64(99 - i)
	}
	require.Equal(t, Quantiles{Mean: 49.5, P50: 50, P90: 90, P99: 99}, quantiles(x))
	require.Equal(t, Quantiles{}, quantiles(nil))
	require.Equal(t, Quantiles{Mean: 3, P50: 3, P90: 3, P99: 3}, quantiles([]float64{3}))
}

func report() *Report {
	row := func(name string, mean, regret float64) *Result {
		return &Result{
			Policy: name, Requests: 9, TTFT: Quantiles{mean, mean, 2 * mean, 3 * mean}, LastStage: Quantiles{P90: 0.3},
			RegretMean: regret, RegretP90: regret, Goodput: mean, Hit: 0.3, Eta: 0.9, CV: 0.2,
		}
	}
	tables := []*Table{
		{Cell: "C", Note: "a <note>", HPooled: 0.4, Rows: []*Result{row("lmetric", 2, 1.25), row("cost", 1.6, 1)}},
		{Cell: "D", Overload: true, HPooled: 0.4, Rows: []*Result{row("lmetric", 4, 1), row("cost", 8, 2)}},
		{Cell: "H", Apart: true, HPooled: 0.4, Rows: []*Result{row("round-robin", 2, 1), row("cost", 9, 4.5)}},
		{Cell: "B2B", FloorP90S: 0.2, HPooled: 0.3, Rows: []*Result{row("lmetric", 1, 1), row("cost", 1.04, 1.04)}},
	}
	return &Report{Tables: tables}
}

func TestMeasures(t *testing.T) {
	t.Parallel()
	r := report()
	r.Measure()
	for name, want := range map[string]float64{
		"regret_mean_below_saturation": 1.04, "regret_mean_overload": 2, "C_ttft_vs_lmetric": 0.8, "C_eta": 0.9,
		"C_hit_vs_pooled_worker": 0.75, "H_ttft_vs_round_robin": 4.5, "B2B_last_p90_vs_floor": 1.5,
	} {
		require.InDelta(t, want, r.Measures[name], 1e-12, name)
	}
	require.NotContains(t, r.Measures, "H_eta")
}

func TestGoals(t *testing.T) {
	t.Parallel()
	goals, err := ReadGoals(strings.NewReader(`[
		{"measure": "regret_mean_overload", "at_most": 1.3, "met": true},
		{"measure": "C_eta", "at_least": 0.97, "met": false, "why": "because"},
		{"measure": "C_ttft_vs_lmetric", "at_most": 0.93, "met": false},
		{"measure": "B2B_regret_mean", "at_most": 1.05, "met": true},
		{"measure": "moon", "at_most": 1, "met": false}]`))
	require.NoError(t, err)
	r := report()
	err = r.Check(goals)
	require.ErrorContains(t, err, "goal lost: regret_mean_overload")
	require.ErrorContains(t, err, `unknown measure "moon"`)
	require.NotContains(t, err.Error(), "C_eta", "a goal that never was met is not lost")
	var b bytes.Buffer
	require.NoError(t, r.WriteText(&b))
	for _, want := range []string{"LOST    2.000", "missed  0.900, at least 0.970: because", "reached 0.800", "met     1.040"} {
		require.Contains(t, b.String(), want)
	}
	for _, bad := range []string{"{", `[{"measure": "x"}]`, `[{"measure": "x", "at_most": 1, "at_least": 1}]`, `[{"at_most": 1, "odd": 2}]`} {
		_, err := ReadGoals(strings.NewReader(bad))
		require.ErrorContains(t, err, "read goals")
	}
}

func TestReportsAreEqualForEqualRunsAndWellFormed(t *testing.T) {
	t.Parallel()
	var a, b, svg bytes.Buffer
	require.NoError(t, report().WriteJSON(&a))
	require.NoError(t, report().WriteJSON(&b))
	require.Equal(t, a.String(), b.String())
	var back Report
	require.NoError(t, json.Unmarshal(a.Bytes(), &back))
	require.True(t, reflect.DeepEqual(report().Tables[1].Rows[0], back.Tables[1].Rows[0]))

	r := report()
	require.NoError(t, r.WriteSVG(&svg, "cost"))
	d := xml.NewDecoder(&svg)
	bars := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			bars++
		}
	}
	require.Equal(t, 9, bars, "a background and eight bars")
}

// cpu is the processor time the process has used; on a busy machine elapsed time says little.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRun reports requests per second of CPU: the conversation trace at three times its speed under the default
// policy.
func BenchmarkRun(b *testing.B) {
	w, err := Load(TracePath(corpus(b), "conversation_trace.jsonl"), "")
	require.NoError(b, err)
	p, err := ProfileNamed("h100x2-qwen3-32b")
	require.NoError(b, err)
	cfg := Config{
		Workload: w.Speedup(3), Profile: p, Workers: 8, KVTokens: 3_072_000, Policy: policy.Default,
		Options: policy.DefaultOptions(), Seed: 1, Poll: 50 * time.Millisecond,
	}
	start := cpu(b)
	for b.Loop() {
		_, err := Run(cfg)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(w.Requests()*b.N)/(cpu(b)-start).Minutes(), "requests/cpu-min")
}
