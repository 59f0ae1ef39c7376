package simlive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/kittest"

	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

const three = `{"timestamp": 2000, "input_length": 1100, "output_length": 900, "hash_ids": [1, 2, 3]}
{"timestamp": 1000, "input_length": 600, "output_length": 0, "hash_ids": [1, 9]}
{"timestamp": 9000, "input_length": 10, "output_length": 5, "hash_ids": []}
`

func TestCut(t *testing.T) {
	t.Parallel()
	got, err := Slice{Requests: 2, MaxOutput: 64, Arrivals: 4}.cut(strings.NewReader(three))
	require.NoError(t, err)
	require.Equal(t, []request{
		{TimestampMS: 0, InputLength: 600, OutputLength: 1, HashIDs: []uint64{1, 9}},
		{TimestampMS: 250, InputLength: 1100, OutputLength: 64, HashIDs: []uint64{1, 2, 3}},
	}, got)
	spread := func(seed uint64) []request {
		out, err := Slice{Requests: 3, MaxOutput: 9, Arrivals: 1, Spread: time.Hour, Seed: seed}.cut(strings.NewReader(three))
		require.NoError(t, err)
		return out
	}
	require.Equal(t, spread(1), spread(1))
	require.NotEqual(t, spread(1), spread(2))
	for _, row := range []struct{ name, text, want string }{
		{"nothing", "", "no requests"},
		{"no JSON", "{\n", "line 1"},
		{"too many ids", `{"timestamp": 1, "input_length": 5, "hash_ids": [1,2]}`, "2 hash ids for 5 tokens"},
		{"no prompt", `{"timestamp": 1, "input_length": 0}`, "0 hash ids for 0 tokens"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := Slice{Requests: 2, MaxOutput: 1, Arrivals: 1}.cut(strings.NewReader(row.text))
			require.ErrorContains(t, err, row.want)
		})
	}
}

// TestTokensAreEqualAsFarAsTheHashesAre: what the simulator takes for a shared prefix is one for the mesh, to the token.
func TestTokensAreEqualAsFarAsTheHashesAre(t *testing.T) {
	t.Parallel()
	const vocab = 5000
	common := func(a, b []uint32) int {
		n := 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		return n
	}
	x := request{InputLength: 1500, HashIDs: []uint64{1, 2, 3}}
	y := request{InputLength: 1300, HashIDs: []uint64{1, 2, 4}}
	z := request{InputLength: 1300, HashIDs: []uint64{5, 2}}
	a := x.appendTokens(nil, 1, vocab)
	require.Len(t, a, 1500)
	require.Less(t, slices.Max(a), uint32(vocab))
	require.GreaterOrEqual(t, slices.Min(a), uint32(300))
	require.Equal(t, a, x.appendTokens(nil, 1, vocab))
	require.InDelta(t, 1024, common(a, x.appendTokens(nil, 2, vocab)), 2, "the rest is each request's own")
	require.InDelta(t, 1024, common(a, y.appendTokens(nil, 1, vocab)), 300, "two whole units; the rest has one owner here")
	require.InDelta(t, 0, common(a, z.appendTokens(nil, 1, vocab)), 2)
}

func TestPairsAndTheirOrder(t *testing.T) {
	t.Parallel()
	c := Comparison{
		Requests:  5,
		Simulated: []Row{{Policy: "a", Mean: 1}, {Policy: "b", Mean: 1.1}, {Policy: "c", Mean: 2}},
		Live:      []Row{{Policy: "a", Mean: 4}, {Policy: "b", Mean: 3}, {Policy: "c", Mean: 5}},
	}
	all, reversed := c.pairs()
	require.Equal(t, 2, all, "a and b are too near")
	require.Empty(t, reversed)
	require.NoError(t, c.Err())
	var out strings.Builder
	require.NoError(t, c.Write(&out))
	require.Contains(t, out.String(), "2 of 2 pairs")
	require.Less(t, strings.LastIndex(out.String(), "  b "), strings.LastIndex(out.String(), "  a "), "best first")
	c.Live[2].Mean = 3.5
	require.ErrorContains(t, c.Err(), "a before c")
	c.Live[1].Lag = time.Second
	require.ErrorContains(t, c.Err(), "too busy to tell (up to 1s late during b): a before c")
	c.Live[0].Failed = 2
	require.ErrorContains(t, c.Err(), "a: 2 of 5 requests failed")
}

func TestSummary(t *testing.T) {
	t.Parallel()
	row := summarise("p", []answer{
		{ttft: time.Second, cached: 30, prompt: 100}, {ttft: 3 * time.Second, prompt: 100}, {err: errors.New("x")},
	})
	require.Equal(t, Row{Policy: "p", Mean: 2, P50: 3, P90: 3, Hit: 0.15, Failed: 1}, row)
	require.Equal(t, Row{Policy: "p", Failed: 1}, summarise("p", []answer{{err: errors.New("x")}}))
	require.True(t, Row{Mean: 9}.better(Row{Failed: 1}))
	require.True(t, Row{Mean: 1}.better(Row{Mean: 2}))
	require.False(t, Row{Mean: 1, Failed: 2}.better(Row{Mean: 2}))
}

func TestLagIsNeverNegative(t *testing.T) {
	t.Parallel()
	stop := watchLag()
	require.GreaterOrEqual(t, stop(), time.Duration(0))
}

// TestPlayerReadsAnswers has a server that answers in each of the ways a mesh can.
func TestPlayerReadsAnswers(t *testing.T) {
	t.Parallel()
	const good = "data: {\"choices\":[]}\n\n: note\n\ndata: {\"usage\":{\"prompt_tokens\":10," +
		"\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n\n"
	for _, row := range []struct {
		name, body string
		status     int
		fault      string
	}{
		{"whole", good, 200, ""},
		{"refused", "busy", 429, "status 429: busy"},
		{"cut", strings.TrimSuffix(good, "data: [DONE]\n\n"), 200, "without [DONE]"},
		{"broken", "data: {\"error\":{\"message\":\"gone\"}}\n\n", 200, "gone"},
		{"no JSON", "data: {\n\n", 200, "read chunk"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var asked struct {
				Prompt    []uint32
				Stream    bool
				MaxTokens int `json:"max_tokens"`
			}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
					t.Error(err)
				}
				w.WriteHeader(row.status)
				_, _ = io.WriteString(w, row.body)
			}))
			t.Cleanup(srv.Close)
			p := player{url: srv.URL, model: "m", vocab: 1000, speedup: 2, client: srv.Client()}
			got := p.play(t.Context(), []request{{InputLength: 20, OutputLength: 7}})
			require.Len(t, asked.Prompt, 20)
			require.True(t, asked.Stream)
			require.Equal(t, 7, asked.MaxTokens)
			if row.fault != "" {
				require.ErrorContains(t, got[0].err, row.fault)
				return
			}
			require.NoError(t, got[0].err)
			require.Positive(t, got[0].ttft)
			require.Equal(t, []int{10, 4}, []int{got[0].prompt, got[0].cached})
		})
	}
}

// TestSliceGoesThroughSimulatorAndMesh plays four prompts, each five times, one after another by far: there is no queue, so
// the simulator's hits are known to the token. The mesh's may be fewer: a machine that is short of processors can ask again
// before the events of the turn before have come.
func TestSliceGoesThroughSimulatorAndMesh(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..", "..")
	cfg, err := mesh.Load(conf.Source{
		Path:    filepath.Join(root, "deploy", "config", "demo.yaml"),
		Environ: []string{"MODEL_PATH=" + filepath.Join(root, "deploy", "demo-model")},
		Sets: []string{
			"gateway.address=127.0.0.1:0", "gateway.server.address=mem://gateway", "mesh.admin.address=tcp://127.0.0.1:0",
			"gateway.quiet=true",
		},
	})
	require.NoError(t, err)
	var trace strings.Builder
	for i := range 20 {
		fmt.Fprintf(&trace, `{"timestamp": %d, "input_length": 1030, "output_length": 2, "hash_ids": [%d, %d, %d]}`+"\n",
			i*5000, i%4, 100+i%4, 200+i)
	}
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(trace.String()), 0o600))
	got, err := Run(t.Context(), cfg, mesh.Deps{Log: slog.New(slog.DiscardHandler)}, Options{
		Trace: path, Policies: []string{"longest-prefix", "cost"}, Workers: 3, KVTokens: 1 << 15,
		Profile: "h100x2-qwen3-32b", Speedup: 100, Rounds: 1,
		Slice: Slice{Requests: 20, MaxOutput: 8, Arrivals: 1, Seed: 1},
	})
	require.NoError(t, err)
	want := float64(16*1024) / float64(20*1030) // 16 of 20 repeat two whole units
	for i, rows := range [][]Row{got.Simulated, got.Live} {
		require.Len(t, rows, 2)
		least := []float64{want, want / 2}[i]
		for _, r := range rows {
			require.Zero(t, r.Failed, r.Policy)
			require.GreaterOrEqual(t, r.Hit, least-0.001, r.Policy)
			require.LessOrEqual(t, r.Hit, want+0.001, r.Policy)
			require.Positive(t, r.Mean)
		}
	}
}
