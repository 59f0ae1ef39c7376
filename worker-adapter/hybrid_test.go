package workeradapter_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// TestHybridPredictions: prompts that share prefixes of all lengths go one by one to a hybrid model's worker whose cache
// holds a tenth of them. What the mesh was told predicts the cached tokens of every single one.
func TestHybridPredictions(t *testing.T) {
	t.Parallel()
	const block = 32
	for _, shape := range []fakevllm.Hybrid{
		{SlidingGroups: 1, WindowTokens: 33}, {SlidingGroups: 2, WindowTokens: 64}, {SlidingGroups: 3, WindowTokens: 200},
	} {
		t.Run(fmt.Sprintf("%d groups, window %d", shape.SlidingGroups, shape.WindowTokens), func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, fakevllm.Config{
				BlockSize: block, NumGPUBlocks: 120, MaxNumBatchedTokens: 256, Hybrid: shape,
			})
			m := newMesh()
			startAdapter(t, fast(w.url), m)
			untilLive(t, m)
			random := rand.New(rand.NewPCG(4, uint64(shape.WindowTokens)))
			pool := [][]uint32{prompt(1, 300)}
			hits := 0
			for i := range 50 {
				ids := slices.Clone(pool[random.IntN(len(pool))])
				switch random.IntN(4) {
				case 0: // shorter
					ids = ids[:1+random.IntN(len(ids))]
				case 1: // another end
					ids = append(ids[:random.IntN(len(ids))], prompt(i+2, 1+random.IntN(200))...)
				case 2: // longer
					ids = append(ids, prompt(i+2, 1+random.IntN(120))...)
				}
				ids = ids[:min(len(ids), 640)]
				if pool = append(pool, ids); len(pool) > 12 {
					pool = pool[1:]
				}
				predicted := m.hit(0, ids, block)
				require.Equal(t, w.complete(t, ids), predicted, "prompt %d of %d tokens", i, len(ids))
				hits += predicted
				untilHit(t, m, append(ids, 1), len(ids)/block*block)
			}
			require.Greater(t, hits, 1000, "the workload must have hits")
			card := untilState(t, m, workerv1.EventState_EVENT_STATE_HYBRID)
			require.Contains(t, card.EventDetail, fmt.Sprintf("%d cache groups", shape.SlidingGroups+1))
		})
	}
}

// untilState waits until the card says how the events are.
func untilState(t *testing.T, m *mesh, want workerv1.EventState) *workerv1.WorkerCard {
	t.Helper()
	var card *workerv1.WorkerCard
	kittest.Eventually(t, func() error {
		c, err := m.current()
		if err == nil && c.EventState != want {
			err = fmt.Errorf("events %s (%s)", c.EventState, c.EventDetail)
		}
		card = c
		return err
	})
	return card
}

// deepest cuts a hybrid worker's path to its deepest boundary, as schedulers do.
func (v *view) deepest(units []uint64, step int) int {
	n := len(units) / step * step
	for n > 0 && v.held[kvblock.Boundary(units[n-1])] == 0 {
		n -= step
	}
	return n
}
