package simulate

import (
	"bufio"
	"cmp"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

// corpus returns the shared corpus, which must be there.
func corpus(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("KVMESH_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "corpus")
	}
	_, err := os.Stat(filepath.Join(dir, "traces"))
	require.NoError(t, err, "the shared corpus is missing: set KVMESH_CORPUS")
	return dir
}

// measured is one request of a real vLLM run, on the engine's clock in seconds.
type measured struct {
	Input  int     `json:"input_toks"`
	Output int     `json:"output_toks"`
	Queued float64 `json:"queued_ts"`
	First  float64 `json:"first_token_ts"`
	Last   float64 `json:"last_token_ts"`
}

func readMeasured(t *testing.T) []measured {
	t.Helper()
	f, err := os.Open(filepath.Join(corpus(t), "traces", "vllm-measured", "measured_vllm_RTXPRO6000_Qwen3-32B_requests.jsonl"))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	var out []measured
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var m measured
		require.NoError(t, json.Unmarshal(scan.Bytes(), &m))
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b measured) int { return cmp.Compare(a.Queued, b.Queued) })
	return out
}

// TestWorkerModelMatchesAMeasuredRun holds the engine model against 300 requests of a real server: no prefix is shared,
// so only steps, budget and the limit of sequences count.
func TestWorkerModelMatchesAMeasuredRun(t *testing.T) {
	t.Parallel()
	rows := readMeasured(t)
	require.Len(t, rows, 300)
	w := &Workload{Name: "measured", UnitTokens: 16, Stages: make([]Stage, 1)}
	var ttft, tpot []float64
	end := 0.0
	for _, m := range rows {
		w.Stages[0].Arrivals = append(w.Stages[0].Arrivals, Arrival{
			At: time.Duration((m.Queued - rows[0].Queued) * 1e9), Prompt: m.Input, Output: m.Output,
		})
		ttft = append(ttft, m.First-m.Queued)
		tpot = append(tpot, (m.Last-m.First)/float64(m.Output-1))
		end = math.Max(end, m.Last-rows[0].Queued)
	}
	profile, err := ProfileNamed("rtx-pro-6000-qwen3-32b")
	require.NoError(t, err)
	got, err := Run(Config{
		Workload: w, Profile: profile, Workers: 1, KVTokens: 2_000_000, Policy: "round-robin",
		Options: policy.DefaultOptions(), Seed: 1, Poll: time.Second,
	})
	require.NoError(t, err)
	wantTTFT, wantTPOT := quantiles(ttft), quantiles(tpot)
	const within = 0.05
	require.InEpsilon(t, wantTTFT.Mean, got.TTFT.Mean, within, "TTFT mean")
	require.InEpsilon(t, wantTTFT.P50, got.TTFT.P50, within, "TTFT p50")
	require.InEpsilon(t, wantTTFT.P90, got.TTFT.P90, within, "TTFT p90")
	require.InEpsilon(t, wantTTFT.P99, got.TTFT.P99, within, "TTFT p99")
	require.InEpsilon(t, wantTPOT.Mean, got.TPOT.Mean, within, "TPOT mean")
	require.InEpsilon(t, end, got.SpanS, within, "end of the run")
	t.Logf("measured / simulated: TTFT mean %.2f / %.2f, p90 %.2f / %.2f s; TPOT %.1f / %.1f ms; end %.1f / %.1f s",
		wantTTFT.Mean, got.TTFT.Mean, wantTTFT.P90, got.TTFT.P90, 1e3*wantTPOT.Mean, 1e3*got.TPOT.Mean, end, got.SpanS)
}

// TestBoundsEqualThePublishedTable pins trace reader and cache bound to known hit shares.
func TestBoundsEqualThePublishedTable(t *testing.T) {
	t.Parallel()
	const conversation, first = "conversation_trace.jsonl", "mooncake_trace_first1000_from_dynamo.jsonl"
	read := map[string]*Workload{}
	for _, file := range []string{conversation, first} {
		w, err := Load(TracePath(corpus(t), file), "")
		require.NoError(t, err)
		read[file] = w
	}
	for _, row := range []struct {
		file   string
		tokens int
		want   float64
	}{
		{conversation, 307_200, .0432},
		{conversation, 2_457_600, .1146},
		{conversation, 4_915_200, .2162},
		{conversation, 8_798_208, .2821},
		{conversation, 9_830_400, .2944},
		{conversation, 24_576_000, .3618},
		{conversation, 0, .3734},
		{first, 1_228_800, .2962},
		{first, 2_457_600, .3354},
		{first, 0, .3905},
	} {
		require.InDelta(t, row.want, PooledLRU(read[row.file], row.tokens), 0.00006, "%s %d", row.file, row.tokens)
	}
}
