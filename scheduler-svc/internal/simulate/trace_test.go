package simulate

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func TestReadTrace(t *testing.T) {
	t.Parallel()
	got, err := ReadTrace(Source{Name: "t"}, strings.NewReader(`{"timestamp": 5000, "input_length": 1100, "output_length": 3, "hash_ids": [7, 9, 11]}

{"timestamp": 4000, "input_length": 512, "output_length": 0, "hash_ids": [7]}
{"timestamp": 4000, "input_length": 511, "output_length": 9, "hash_ids": [8]}
`))
	require.NoError(t, err)
	want := &Workload{Name: "t", UnitTokens: 512, Distinct: 2, Stages: []Stage{{Arrivals: []Arrival{
		{At: 0, Prompt: 512, Output: 1, Units: []uint32{0}},
		{At: 0, Prompt: 511, Output: 9, Units: []uint32{}},
		{At: time.Second, Prompt: 1100, Output: 3, Units: []uint32{0, 1}},
	}}}}
	require.Empty(t, cmp.Diff(want, got), "ids are interned, partial last ids dropped, times sorted stably from zero")
	require.Equal(t, 3, got.Requests())
}

func TestReadGatewayLog(t *testing.T) {
	t.Parallel()
	got, err := ReadTrace(Source{Name: "log"}, strings.NewReader(
		`{"timestamp_ms": 1700000000000.5, "input_length": 40, "output_length": 3, "hash_ids": ["a3f", "77"], "block_tokens": 16}
{"timestamp_ms": 1700000000002, "input_length": 32, "output_length": 3, "hash_ids": ["a3f", 18446744073709551615], "block_tokens": 16}`))
	require.NoError(t, err)
	require.Equal(t, 16, got.UnitTokens)
	require.Equal(t, 3, got.Distinct)
	require.Equal(t, 1500*time.Microsecond, got.Stages[0].Arrivals[1].At)
	require.Equal(t, []uint32{0, 2}, got.Stages[0].Arrivals[1].Units)
}

func TestReadTraceNamesTheFault(t *testing.T) {
	t.Parallel()
	good := `{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": []}` + "\n"
	for _, row := range []struct{ name, text, want string }{
		{"empty", "", "no requests"},
		{"no JSON", good + "nonsense\n", "line 2"},
		{"no time", `{"input_length": 5, "output_length": 1}`, "timestamp is missing"},
		{"time before the start", `{"timestamp": -1, "input_length": 5, "output_length": 1}`, "timestamp -1"},
		{"no prompt", `{"timestamp": 0, "input_length": 0, "output_length": 1}`, "lengths 0 and 1"},
		{"endless prompt", `{"timestamp": 0, "input_length": 99999999, "output_length": 1}`, "lengths 99999999"},
		{"negative answer", `{"timestamp": 0, "input_length": 1, "output_length": -1}`, "lengths 1 and -1"},
		{"bad unit", `{"timestamp": 0, "input_length": 1, "output_length": 1, "block_tokens": -4}`, "block_tokens -4"},
		{"two units", good + `{"timestamp": 0, "input_length": 1, "output_length": 1, "block_tokens": 16}`, "changes from 512 to 16"},
		{"long line", strings.Repeat("x", maxLineBytes+1), "token too long"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadTrace(Source{Name: "t"}, strings.NewReader(row.text))
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestATraceOfSeveralModels(t *testing.T) {
	t.Parallel()
	const log = `{"timestamp_ms": 9, "model": "b", "input_length": 40, "output_length": 1, "block_tokens": 32, "hash_ids": ["x"]}
{"timestamp_ms": 5, "model": "a", "input_length": 40, "output_length": 2, "block_tokens": 16, "hash_ids": ["x", "y"]}
{"timestamp_ms": 7, "input_length": 20, "output_length": 3, "block_tokens": 16, "hash_ids": ["x"]}
`
	for _, row := range []struct {
		name, model, fault string
		outputs            []int
	}{
		{"one of them", "a", "", []int{2, 3}},
		{"none is chosen", "", "choose one of its models: a, b", nil},
		{"another", "c", "", []int{3}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			text := log
			if row.fault != "" {
				text = strings.ReplaceAll(log, `"block_tokens": 32`, `"block_tokens": 16`)
			}
			w, err := ReadTrace(Source{Name: "log", Model: row.model}, strings.NewReader(text))
			if row.fault != "" {
				require.ErrorContains(t, err, row.fault)
				return
			}
			require.NoError(t, err)
			var outputs []int
			for _, a := range w.Stages[0].Arrivals {
				outputs = append(outputs, a.Output)
			}
			require.Equal(t, row.outputs, outputs)
		})
	}
	only, _, _ := strings.Cut(log, "\n")
	_, err := ReadTrace(Source{Name: "log", Model: "z"}, strings.NewReader(only))
	require.ErrorContains(t, err, `no requests for the model "z", only for b`)
}

func FuzzReadTrace(f *testing.F) {
	f.Add(`{"timestamp": 5000, "input_length": 1100, "output_length": 3, "hash_ids": [7, 9, 11]}`)
	f.Add(`{"timestamp_ms": 1e12, "input_length": 40, "output_length": 0, "hash_ids": ["a", {}], "block_tokens": 16}`)
	f.Add(`{"timestamp": 0, "input_length": 16777216, "hash_ids": [0,0,0], "block_tokens": 1}`)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ReadTrace(Source{Name: "f"}, strings.NewReader(text))
		if err != nil {
			return
		}
		last := time.Duration(0)
		for _, a := range w.Stages[0].Arrivals {
			require.GreaterOrEqual(t, a.At, last)
			last = a.At
			require.LessOrEqual(t, len(a.Units)*w.UnitTokens, a.Prompt)
			require.Positive(t, a.Output)
			for _, u := range a.Units {
				require.Less(t, int(u), w.Distinct)
			}
		}
		require.InDelta(t, 0.5, PooledLRU(w, 0), 0.5)
	})
}

func TestSpreadAndSpeedup(t *testing.T) {
	t.Parallel()
	w := HotGroup(1, 200)
	twice := w.Speedup(2)
	spread := w.Spread(3*time.Second, 5)
	require.Equal(t, w.Requests(), spread.Requests())
	moved := 0
	for i, a := range w.Stages[0].Arrivals {
		require.Equal(t, a.At/2, twice.Stages[0].Arrivals[i].At)
		if i > 0 {
			require.LessOrEqual(t, spread.Stages[0].Arrivals[i-1].At, spread.Stages[0].Arrivals[i].At)
		}
		if spread.Stages[0].Arrivals[i].At != a.At {
			moved++
		}
	}
	require.Greater(t, moved, 190)
	require.True(t, reflect.DeepEqual(spread, w.Spread(3*time.Second, 5)), "equal seeds, equal arrivals")
	require.False(t, reflect.DeepEqual(spread, w.Spread(3*time.Second, 6)))
	require.Same(t, w, w.Spread(0, 5))
}

func TestGeneratedSets(t *testing.T) {
	t.Parallel()
	b := B2B(1)
	require.Len(t, b.Stages, 17)
	require.InDelta(t, 16_400+750, b.Requests(), 500)
	require.Equal(t, 150*(93+5*19), b.Distinct, "93 whole units are a group's, 19 a prompt's")
	require.InDelta(t, 0.993, PooledLRU(b, 0), 0.001)
	warm := 0
	for i := range b.Stages {
		for _, a := range b.Stages[i].Arrivals {
			require.Equal(t, []int{7200, 1000, 112}, []int{a.Prompt, a.Output, len(a.Units)})
			require.Equal(t, i == 0, a.Warmup)
			if a.Warmup {
				warm++
			}
		}
	}
	require.InDelta(t, 750, warm, 100)
	require.True(t, reflect.DeepEqual(b, B2B(1)))

	h := HotGroup(1, 300)
	require.Equal(t, 39+300*(153-39), h.Distinct)
	for i := range h.Stages[0].Arrivals {
		require.Equal(t, h.Stages[0].Arrivals[0].Units[:39], h.Stages[0].Arrivals[i].Units[:39])
	}

	n := NoPrefix(b)
	require.Zero(t, PooledLRU(n, 0))
	require.Equal(t, b.Requests(), n.Requests())
	require.Equal(t, b.Requests()*112, n.Distinct)
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	for _, p := range Profiles() {
		got, err := ProfileNamed(p.Name)
		require.NoError(t, err)
		require.Equal(t, p, got)
		require.True(t, p.StepS > 0 && p.PrefillS > 0 && p.BudgetToks > 0 && p.MaxSeqs > 0 && p.BlockTokens > 0 && p.KVTokens > 0)
	}
	_, err := ProfileNamed("abacus")
	require.ErrorContains(t, err, "h100x2-qwen3-32b")
}

// TestProfilesMeetTheirAnchors: an 8,192-token prefill on an idle worker, and the step of its first decode.
func TestProfilesMeetTheirAnchors(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		profile           string
		prefillS, decodeS float64
	}{
		{"h100x2-qwen3-32b", 0.40, 0.011},
		{"h100x4-llama-3.1-70b", 0.507, 0.0167},
		{"h100-llama-3.1-8b", 0.228, 0.0076},
		{"h100-qwen3-14b", 0.417, 0.0123},
		{"a100-llama-3.1-8b", 0.855, 0.0106},
		{"smg-rig", 1.024, 0.00635},
	} {
		p, err := ProfileNamed(row.profile)
		require.NoError(t, err)
		w := newWorker(p, &Workload{UnitTokens: 16})
		tp := newTape()
		w.waiting.push(seq(1, 8192, 2))
		drain(t, w, tp, nil)
		require.InEpsilon(t, row.prefillS, tp.first[1].Seconds(), 0.1, row.profile)
		require.InEpsilon(t, row.decodeS, (tp.end[1] - tp.first[1]).Seconds(), 0.15, row.profile)
	}
}
