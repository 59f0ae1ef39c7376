package route

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
)

// TestHitsCountWholeBlocksAndNeverTheLastToken: design §4.
func TestHitsCountWholeBlocksAndNeverTheLastToken(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		block  uint32
		unit   uint32
		held   int
		tokens uint32
		want   uint32
	}{
		{"nothing held", 16, 0, 0, 1000, 0},
		{"all units of a prompt with a tail", 16, 0, 10, 163, 160},
		{"the last token is computed", 16, 0, 10, 160, 144},
		{"blocks of four units", 64, 0, 7, 1000, 64},
		{"blocks of four units and the last token", 64, 0, 8, 128, 64},
		{"blocks of eight units, none whole", 128, 0, 7, 1000, 0},
		{"unknown block size", 0, 0, 3, 1000, 48},
		{"hashed at the worker's own size", 24, 24, 3, 100, 72},
		{"hashed at another worker's size", 24, 16, 3, 100, 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{})
			r.worker("w", func(c *workerv1.WorkerCard) { c.BlockTokens = row.block })
			units := prompt("p", 10)
			r.store("w", units[:row.held])
			req := ask(units)
			req.UnitTokens, req.PromptTokens = row.unit, row.tokens
			require.Equal(t, row.want, r.route(req).GetPredictedHitTokens())
		})
	}
}

// TestExpectedUnitsCountUntilTheyAreConfirmed: scheduling.md §8.
func TestExpectedUnitsCountUntilTheyAreConfirmed(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("w", nil)
	units := prompt("p", 10)
	first := r.route(ask(units))
	require.Zero(t, first.GetPredictedHitTokens())
	second := r.route(ask(units))
	require.Equal(t, uint32(160), second.GetPredictedHitTokens())
	explained, err := r.engine.Explain(ask(units))
	require.NoError(t, err)
	require.Equal(t, uint32(160), explained.GetCandidates()[0].GetExpectedHitTokens())

	r.end(first, failed, -1)
	require.Equal(t, uint32(160), r.hit(units), "the second one will make them then")
	r.end(second, failed, -1)
	require.Zero(t, r.hit(units))

	third := r.route(ask(units))
	r.store("w", units[:4])
	require.Equal(t, uint32(160), r.hit(units), "four confirmed, six expected")
	r.end(third, ok, 0)
	require.Equal(t, uint32(160), r.hit(units), "an answer may overtake its events")
	r.clock.Advance(2 * time.Second)
	r.fleet.View().Targets[0].Expect.Expire(r.clock.Now())
	require.Equal(t, uint32(64), r.hit(units), "what is not announced in time is not there")
}

func (r *rig) hit(units []uint64) uint32 {
	receipt, err := r.engine.Explain(ask(units))
	require.NoError(r.t, err)
	return receipt.GetPredictedHitTokens()
}

// TestRanksAreTargets: INDEX-11.
func TestRanksAreTargets(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("w", func(c *workerv1.WorkerCard) { c.Ranks = 2 })
	units := prompt("p", 50)
	r.event("w", 1, &eventv1.TierDelta{Tier: workerv1.Tier_TIER_GPU, Added: units})
	for range 5 {
		resp := r.route(ask(units))
		require.Equal(t, uint32(1), resp.GetTarget().GetRank())
		require.True(t, resp.GetSendRank())
		r.end(resp, ok, 800)
	}
}

// TestSlowerTiersCountLess: the same prefix on the device wins against host memory.
func TestSlowerTiersCountLess(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("host", nil)
	r.worker("device", nil)
	units := prompt("p", 50)
	r.event("host", 0, &eventv1.TierDelta{Tier: workerv1.Tier_TIER_CPU, Added: units})
	r.store("device", units)
	require.Equal(t, "device", r.route(ask(units)).GetTarget().GetWorkerId())
	r.event("device", 0, &eventv1.TierDelta{Tier: workerv1.Tier_TIER_GPU, Removed: units[10:]})
	receipt, err := r.engine.Explain(ask(units))
	require.NoError(t, err)
	require.Equal(t, "host", receipt.GetChosen().GetWorkerId())
}

// TestFallbackPromptsAreRememberedByTheirOwnRoutes: hashes over bytes are in no event, only in earlier choices.
func TestFallbackPromptsAreRememberedByTheirOwnRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("a", nil)
	r.worker("b", nil)
	req := ask(prompt("bytes", 40))
	req.Certainty, req.CertaintyReason = schedulerv1.Certainty_CERTAINTY_FALLBACK, "template"
	first := r.route(req)
	require.Equal(t, schedulerv1.Certainty_CERTAINTY_FALLBACK, first.GetCertainty())
	r.end(first, ok, -1)
	for range 4 {
		again := r.route(req)
		require.Equal(t, first.GetTarget().GetWorkerId(), again.GetTarget().GetWorkerId())
		require.Equal(t, uint32(640), again.GetPredictedHitTokens())
		r.end(again, ok, -1)
	}
	receipts := r.engine.p.Receipts.Get("r")
	require.Equal(t, "template", receipts[0].GetCertaintyReason())
}
