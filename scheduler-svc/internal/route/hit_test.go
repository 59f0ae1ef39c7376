package route

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"
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

// TestRequestsThatReadNoCache: nothing is predicted, whoever holds the prompt; what they compute is expected as of any other.
func TestRequestsThatReadNoCache(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("w", nil)
	units := prompt("p", 10)
	r.store("w", units[:4])
	req := ask(units)
	req.SkipsReadingCache = true
	first := r.route(req)
	require.Zero(t, first.GetPredictedHitTokens())
	require.Equal(t, uint32(160), r.hit(units))
	r.end(first, ok, 0)
	require.Equal(t, schedulerv1.Certainty_CERTAINTY_EXACT, r.route(ask(units)).GetCertainty(), "a miss that was predicted is no drift")
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

// TestDegradedPromptsBeginExactly: the first hashes are in events, the rest in earlier choices alone.
func TestDegradedPromptsBeginExactly(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("a", nil)
	r.worker("b", nil)
	units := prompt("image", 40)
	r.store("b", units[:10])
	req := ask(units)
	req.Certainty, req.CertaintyReason = schedulerv1.Certainty_CERTAINTY_DEGRADED, "media"
	first := r.route(req)
	require.Equal(t, "b", first.GetTarget().GetWorkerId(), "the exact prefix is found by its events")
	require.Equal(t, uint32(160), first.GetPredictedHitTokens())
	require.Equal(t, schedulerv1.Certainty_CERTAINTY_DEGRADED, first.GetCertainty())
	r.end(first, ok, 160)
	for range 2 * driftSamples {
		again := r.route(req)
		require.Equal(t, "b", again.GetTarget().GetWorkerId())
		require.Equal(t, uint32(640), again.GetPredictedHitTokens(), "the rest by the choice before")
		r.end(again, ok, 0)
	}
	require.Equal(t, "media", r.engine.p.Receipts.Get("r")[0].GetCertaintyReason())
	sure := r.route(ask(units[:10]))
	require.Equal(t, schedulerv1.Certainty_CERTAINTY_EXACT, sure.GetCertainty(), "guesses that failed are no drift")
}

// driftSamples is more requests than it takes to conclude that a target drifts.
const driftSamples = 10

// TestHybridHitsEndAtBoundaries: a worker with several cache groups serves a hit only where all of them can end one.
func TestHybridHitsEndAtBoundaries(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		block  uint32
		path   int   // units held
		ends   []int // units after which a hit can end
		units  int   // of the prompt
		tokens uint32
		want   uint32
	}{
		{"no boundary", 16, 10, nil, 10, 163, 0},
		{"the whole cached prompt", 16, 10, []int{10}, 10, 163, 160},
		{"a shorter prefix of it", 16, 10, []int{10}, 6, 99, 0},
		{"a longer prompt", 16, 10, []int{10}, 10, 500, 160},
		{"the last token is computed, so the boundary is out of reach", 16, 10, []int{10}, 10, 160, 0},
		{"the deepest of several", 16, 10, []int{3, 7}, 10, 163, 112},
		{"a boundary behind a hole in the path", 16, 6, []int{4, 8}, 10, 163, 64},
		{"blocks of two units", 32, 10, []int{10}, 10, 163, 160},
		{"no boundary within a block", 32, 10, []int{5}, 10, 163, 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{})
			r.worker("w", func(c *workerv1.WorkerCard) {
				c.BlockTokens, c.EventState = row.block, workerv1.EventState_EVENT_STATE_HYBRID
			})
			units := prompt("p", 10)
			held := append([]uint64{kvblock.HybridMark}, units[:row.path]...)
			for _, n := range row.ends {
				held = append(held, kvblock.Boundary(units[n-1]))
			}
			r.store("w", held)
			req := ask(units[:row.units])
			req.PromptTokens = row.tokens
			resp := r.route(req)
			require.Equal(t, row.want, resp.GetPredictedHitTokens())
			require.Equal(t, schedulerv1.Certainty_CERTAINTY_EXACT, resp.GetCertainty())
		})
	}
}

// TestHybridExpectsWholePromptsOnly: while a prompt is in flight to a hybrid worker, an equal or longer one will find its
// end there, one that leaves it earlier will find nothing.
func TestHybridExpectsWholePromptsOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.worker("w", func(c *workerv1.WorkerCard) { c.EventState = workerv1.EventState_EVENT_STATE_HYBRID })
	units := prompt("p", 12)
	require.Equal(t, schedulerv1.Certainty_CERTAINTY_DEGRADED, r.route(ask(prompt("x", 1))).GetCertainty(),
		"nothing is known of its groups yet")
	r.store("w", []uint64{kvblock.HybridMark})
	first := r.route(ask(units[:8]))
	require.Equal(t, uint32(8*16), r.hit(units))
	require.Equal(t, uint32(8*16), r.hit(units[:8]))
	require.Zero(t, r.hit(units[:7]))
	r.store("w", append([]uint64{kvblock.Boundary(units[7])}, units[:8]...))
	r.end(first, ok, 0)
	require.Equal(t, uint32(8*16), r.hit(units), "confirmed")
	require.Zero(t, r.hit(units[:7]))
}
