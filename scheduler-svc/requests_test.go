package schedulersvc_test

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

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	schedulersvc "github.com/kvmesh/kvmesh/scheduler-svc"
	"github.com/kvmesh/kvmesh/scheduler-svc/sim"
)

// TestARecordedLogIsReplayed records what a scheduler routed and asks the simulator what another policy, pool and cache
// would have made of it.
func TestARecordedLogIsReplayed(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.adapter("a", nil)
	path := filepath.Join(t.TempDir(), "requests.ndjson")
	c, stop := m.scheduler("one", func(cfg *schedulersvc.Config) { cfg.Receipts.Requests = path })
	holds(t, c, map[string]uint64{"a/0": 0})
	const requests = 40
	for i := range requests {
		r, err := c.Route(t.Context(), request(fmt.Sprint("r", i), chain(fmt.Sprint(i%8, "f"), 40)))
		require.NoError(t, err)
		settle(t, c, &schedulerv1.SettleRequest{
			Reservation: r.GetReservation(), Outcome: schedulerv1.Outcome_OUTCOME_OK, OutputTokens: uint32(20 + i),
			CachedTokens: proto.Uint32(16), TtftUs: 1500,
		})
	}
	for _, lost := range []schedulerv1.Outcome{ // not the client's doing, or nothing that was served
		schedulerv1.Outcome_OUTCOME_FAILED, schedulerv1.Outcome_OUTCOME_BUSY, schedulerv1.Outcome_OUTCOME_REJECTED,
		schedulerv1.Outcome_OUTCOME_CANCELLED,
	} {
		r, err := c.Route(t.Context(), request("lost", chain("lost", 40)))
		require.NoError(t, err)
		settle(t, c, &schedulerv1.SettleRequest{Reservation: r.GetReservation(), Outcome: lost})
	}
	stop()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	require.Len(t, lines, requests)
	var first struct {
		Model       string
		InputLength int      `json:"input_length"`
		Cached      int      `json:"cached_tokens"`
		HashIDs     []string `json:"hash_ids"`
	}
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.Equal(t, model, first.Model)
	require.Equal(t, 16, first.Cached)
	require.Len(t, first.HashIDs, 40)
	require.Equal(t, fmt.Sprintf("%016x", chain("0f", 40)[39]), first.HashIDs[39])

	var out bytes.Buffer
	cmd := sim.Command{
		Trace: path, Model: model, Policies: []string{"round-robin", "cost"}, Workers: 3, KVTokens: 1 << 16, Speedup: 1,
		Profile: "h100x2-qwen3-32b", Seed: 1, Poll: 50 * time.Millisecond, Out: &out,
	}
	require.NoError(t, cmd.Run(context.Background()))
	require.Contains(t, out.String(), "3 workers of h100x2-qwen3-32b, 65536 KV tokens each")
	require.Contains(t, out.String(), "1 runs of 40 requests")
	require.Regexp(t, "hit bounds: infinite 0\\.[67]", out.String(), "32 of 40 requests repeat one of eight prompts")
}
