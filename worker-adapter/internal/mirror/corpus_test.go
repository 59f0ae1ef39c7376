package mirror_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/capture"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
)

// TestCaptured runs every recording through the mirror, one per publisher, beside the naive model.
func TestCaptured(t *testing.T) {
	t.Parallel()
	scenarios, err := capture.All()
	require.NoError(t, err)
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			rank := map[int]*pair{}
			for _, msg := range s.Messages {
				p := rank[msg.Port]
				if p == nil {
					p = newPair()
					rank[msg.Port] = p
				}
				p.step(t, msg.Payload)
			}
			for _, p := range rank {
				st := p.mirror.Stats()
				require.Zero(t, st.OrphansDropped)
				require.Zero(t, st.Skipped)
				require.Zero(t, st.Unplaced)
			}
		})
	}
}

// pair is a mirror and the naive model of the same stream.
type pair struct {
	naive  *naive
	mirror *mirror.Mirror
	follow follower
	batch  kvevents.Batch
}

func newPair() *pair {
	return &pair{naive: newNaive(), mirror: mirror.New(mirror.Config{Model: model}), follow: follower{}}
}

func (p *pair) step(t *testing.T, payload []byte) {
	t.Helper()
	require.NoError(t, kvevents.Decode(payload, &p.batch))
	p.naive.apply(&p.batch)
	p.follow.apply(t, p.mirror, p.mirror.Apply(&p.batch))
	agree(t, p.naive, p.mirror, p.follow)
}

// TestCapacityHolds: a cache of 40 blocks (39 usable) under eviction never makes the mirror trim: reference counts of
// vLLM 0.32 are right.
func TestCapacityHolds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kv-f-eviction", "kv-f2-duplicates-removed", "kv-f3-preemption", "v0.23-kv-f-eviction"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := capture.Load(name)
			require.NoError(t, err)
			m := mirror.New(mirror.Config{Model: model})
			m.SetCapacity(39)
			var b kvevents.Batch
			for _, msg := range s.Messages {
				require.NoError(t, kvevents.Decode(msg.Payload, &b))
				m.Apply(&b)
				require.LessOrEqual(t, m.Stats().Copies, 39)
			}
			require.Zero(t, m.Stats().Trimmed)
			require.Zero(t, m.Stats().UnknownRemovals)
			require.Positive(t, m.Stats().Units)
		})
	}
}

// TestCaptureHybrid compares the mirror's claim with what the hybrid model served: the deepest boundary of a prompt
// that is held is the number of cached tokens that the worker reported.
func TestCaptureHybrid(t *testing.T) {
	t.Parallel()
	dir, err := capture.Dir()
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(dir, "kv-t-hybrid-swa.jsonl"))
	require.NoError(t, err)
	p := newPair()
	compared := 0
	var pending []exchange
	for l := range strings.Lines(string(raw)) {
		var x exchange
		require.NoError(t, json.Unmarshal([]byte(l), &x))
		switch x.Kind {
		case "http":
			if x.Request.Path == "/v1/completions" {
				pending = append(pending, x)
				predicted, actual := x.compare(t, p.mirror)
				require.Equal(t, actual, predicted, x.Step)
				compared++
			}
		case "kv":
			p.step(t, unhex(t, x.Payload))
		}
	}
	require.Equal(t, 3, p.mirror.Stats().Groups)
	require.True(t, p.mirror.Stats().Ruled)
	require.Equal(t, 10, compared, "requests of the recording")
	require.NotEmpty(t, pending)
}

// exchange is a line of the recording that holds a request and its answer.
type exchange struct {
	Kind    string `json:"kind"`
	Step    string `json:"step"`
	Payload string `json:"payload_hex"`
	Request struct {
		Path string `json:"path"`
		Body string `json:"body"`
	} `json:"request"`
	Response struct {
		Body string `json:"body"`
	} `json:"response"`
}

// compare is the deepest held boundary of the prompt, in tokens, and what the worker said it had cached.
func (x exchange) compare(t *testing.T, m *mirror.Mirror) (predicted, actual int) {
	t.Helper()
	var body struct {
		Prompt []uint32 `json:"prompt"`
	}
	require.NoError(t, json.Unmarshal([]byte(x.Request.Body), &body))
	var answer struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	require.NoError(t, json.Unmarshal([]byte(x.Response.Body), &answer))
	held := follower{}
	for _, u := range m.Units(mirror.GPU, nil) {
		held[u] = true
	}
	units := kvblock.AppendUnits(nil, kvblock.Namespace{Model: model}.Root(), body.Prompt, "")
	limit := kvblock.HitLimit(len(body.Prompt), 32) / kvblock.UnitTokens
	return hit(held, units[:min(limit, len(units))], 2) * kvblock.UnitTokens, answer.Usage.Details.Cached
}
