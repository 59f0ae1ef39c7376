package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// trace writes a log of requests in which every fourth repeats an earlier prompt.
func trace(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for i := range 200 {
		family := i % 50
		fmt.Fprintf(&b, `{"timestamp_ms": %d, "input_length": 1700, "output_length": %d, "hash_ids": ["%dx", "%dy", "%dz"], "block_tokens": 512}`+"\n",
			i*150, 20+i%30, family, family, family)
	}
	path := filepath.Join(t.TempDir(), "log.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// run parses the arguments as the binary does and returns what it printed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var cmd Command
	parser, err := kong.New(&cmd, kong.Name("sim"), kong.Exit(func(int) { t.Error("the parser exits") }))
	require.NoError(t, err)
	if _, err := parser.Parse(args); err != nil {
		return "", err
	}
	var out bytes.Buffer
	cmd.Out = &out
	err = cmd.Run(t.Context())
	return out.String(), err
}

func TestTraceAsTable(t *testing.T) {
	t.Parallel()
	out, err := run(t, "--trace", trace(t), "--policies", "round-robin,cost,lmetric", "--workers", "3", "--kv-tokens", "65536")
	require.NoError(t, err)
	require.Contains(t, out, "3 workers of h100x2-qwen3-32b, 65536 KV tokens each")
	require.Contains(t, out, "infinite 0.6776", "150 of 200 requests hit three units of 512 in 1,700 tokens")
	for _, name := range []string{"round-robin", "cost", "lmetric"} {
		require.Contains(t, out, "\n  "+name+" ")
	}
	require.NotContains(t, out, "sticky")
}

func TestTraceAsJSONIsRepeatable(t *testing.T) {
	t.Parallel()
	path := trace(t)
	args := []string{"--trace", path, "--json", "--speedup", "2", "--spread", "1.5", "--seed", "7", "--workers", "2"}
	a, err := run(t, args...)
	require.NoError(t, err)
	b, err := run(t, args...)
	require.NoError(t, err)
	require.Equal(t, a, b)
	var got struct {
		Tables []struct {
			Cell    string
			Seed    uint64
			SpreadS float64 `json:"spread_s"`
			Rows    []struct {
				Policy   string
				Requests int
				TTFT     struct{ Mean, P99 float64 } `json:"ttft_s"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(a), &got))
	require.Len(t, got.Tables, 1)
	require.Equal(t, []any{"log", uint64(7), 1.5}, []any{got.Tables[0].Cell, got.Tables[0].Seed, got.Tables[0].SpreadS})
	require.Len(t, got.Tables[0].Rows, 12, "all policies")
	for _, row := range got.Tables[0].Rows {
		require.Equal(t, 200, row.Requests)
		require.Positive(t, row.TTFT.Mean)
	}
	c, err := run(t, append(args, "--seed", "8")...)
	require.NoError(t, err)
	require.NotEqual(t, a, c)
}

func TestOptionsChangeWhatTheyName(t *testing.T) {
	t.Parallel()
	args := []string{"--trace", trace(t), "--policies", "lmetric,cost", "--workers", "2", "--speedup", "4", "--kv-tokens", "65536"}
	before, err := run(t, args...)
	require.NoError(t, err)
	after, err := run(t, append(args, "--option", "cost_delay_price=0", "--option", "cost_room_s=50")...)
	require.NoError(t, err)
	row := func(out, policy string) []string {
		_, rest, _ := strings.Cut(out, "\n  "+policy+" ")
		line, _, _ := strings.Cut(rest, "\n")
		fields := strings.Fields(line)
		return fields[:11] // what stands behind compares the policies
	}
	require.Equal(t, row(before, "lmetric"), row(after, "lmetric"))
	require.NotEqual(t, row(before, "cost"), row(after, "cost"))
}

func TestPlot(t *testing.T) {
	t.Parallel()
	plot := filepath.Join(t.TempDir(), "p.svg")
	_, err := run(t, "--trace", trace(t), "--policies", "cost", "--plot", plot)
	require.NoError(t, err)
	svg, err := os.ReadFile(plot)
	require.NoError(t, err)
	require.Contains(t, string(svg), "<svg")
	_, err = run(t, "--trace", trace(t), "--policies", "cost", "--plot", filepath.Join(plot, "no", "folder.svg"))
	require.ErrorContains(t, err, "create plot")
}

func TestFaultsAreNamed(t *testing.T) {
	t.Parallel()
	path := trace(t)
	lines := func(timestamps ...string) string {
		var b strings.Builder
		for _, at := range timestamps {
			fmt.Fprintf(&b, `{"timestamp_ms": %s, "input_length": 1700, "output_length": 2, "hash_ids": [1, 2, 3]}`+"\n", at)
		}
		path := filepath.Join(t.TempDir(), "log.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
		return path
	}
	long, late := lines("0", "1e10"), lines("5e12")
	for _, row := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing to do", nil, "nothing to simulate"},
		{"both", []string{"--trace", path, "--cells"}, "exclude each other"},
		{"no file", []string{"--trace", path + "x"}, "open trace"},
		{"no corpus", []string{"--cells", "--corpus", path + "x"}, "KVMESH_CORPUS"},
		{"no cell", []string{"--cells", "--corpus", corpus(t), "--only", "A,Z"}, "the cells are B2B,A,B"},
		{"no policy", []string{"--trace", path, "--policies", "cost,nearest"}, `policy "nearest" is unknown`},
		{"no option", []string{"--trace", path, "--option", "cost_price=2"}, "--option: cost_price: unknown"},
		{"no profile", []string{"--trace", path, "--profile", "abacus"}, `profile "abacus" is unknown`},
		{"no workers", []string{"--trace", path, "--workers", "0"}, "--workers 0"},
		{"no speed", []string{"--trace", path, "--speedup", "0"}, "--speedup 0 is not in 1e-06 to 1e+06"},
		{"negative spread", []string{"--trace", path, "--spread=-1"}, "--spread -1"},
		{"endless speed", []string{"--trace", path, "--speedup", "Inf"}, "--speedup +Inf"},
		{"spread that is no number", []string{"--trace", path, "--spread", "NaN"}, "--spread NaN"},
		{"negative cache", []string{"--trace", path, "--kv-tokens=-5"}, "--kv-tokens -5"},
		{"endless cache", []string{"--trace", path, "--kv-tokens", "9000000000000000000"}, "--kv-tokens 9000000000000000000"},
		{"a replay of centuries", []string{"--trace", long, "--speedup", "0.001"}, "--speedup 0.001 makes the trace 317"},
		{"a time out of range", []string{"--trace", late}, "timestamp 5e+12 is out of range"},
		{"cells of a trace", []string{"--trace", path, "--only", "A"}, "--only is of cells"},
		{"two faults", []string{"--trace", path, "--workers", "0", "--poll", "0s"}, "--poll 0s"},
		{"no poll", []string{"--trace", path, "--poll", "0s"}, "--poll 0s"},
		{"small cache", []string{"--trace", path, "--kv-tokens", "100"}, "too small"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, row.args...)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestACancelledRunStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := Command{
		Trace: trace(t), Workers: 2, Speedup: 1, Profile: "h100x2-qwen3-32b", Poll: 50 * time.Millisecond, Policies: []string{"cost"},
		Out: &bytes.Buffer{},
	}
	require.ErrorIs(t, cmd.Run(ctx), context.Canceled)
}

// corpus returns the shared corpus, which must be there.
func corpus(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KVMESH_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "corpus")
	}
	_, err := os.Stat(filepath.Join(dir, "traces"))
	require.NoError(t, err, "the shared corpus is missing: set KVMESH_CORPUS")
	return dir
}

// TestStatedGoals reads the project's goal file against one cell: the goals on it hold, all others name measures that
// only the whole run has. The whole run is a target of its own: it takes a minute.
func TestStatedGoals(t *testing.T) {
	t.Parallel()
	out, err := run(t, "--goals", filepath.Join("..", "..", "bench", "sim-goals.json"), "--corpus", corpus(t),
		"--policies", "lmetric,cost", "--only", "C")
	require.ErrorContains(t, err, "unknown measure")
	require.NotContains(t, err.Error(), "goal lost")
	for _, goal := range []string{"C_eta", "C_ttft_vs_lmetric", "C_goodput_vs_lmetric", "C_regret_mean"} {
		require.Regexp(t, "goal +"+goal+" +met", out)
	}
}

func TestALostGoalIsAnError(t *testing.T) {
	t.Parallel()
	goals := filepath.Join(t.TempDir(), "goals.json")
	require.NoError(t, os.WriteFile(goals, []byte(`[{"measure": "F_eta", "at_least": 1.5, "met": true}]`), 0o600))
	out, err := run(t, "--goals", goals, "--corpus", corpus(t), "--policies", "cost", "--only", "F")
	require.ErrorContains(t, err, "goal lost: F_eta")
	require.Contains(t, out, "LOST")
	_, err = run(t, "--goals", goals+"x", "--corpus", corpus(t), "--policies", "cost", "--only", "F")
	require.ErrorContains(t, err, "open goals")
}
