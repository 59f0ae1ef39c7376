package mirror_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/capture"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
)

// FuzzApply feeds two arbitrary batches in turn and checks what must hold for any input: deltas add up to what is held,
// the digest is that of the units, and no bound is passed.
func FuzzApply(f *testing.F) {
	for _, name := range []string{"kv-f2-duplicates-removed", "kv-t-hybrid-swa", "v0.23-kv-d-lora"} {
		s, err := capture.Load(name)
		require.NoError(f, err)
		for i := 1; i < min(len(s.Messages), 6); i++ {
			f.Add(s.Messages[i-1].Payload, s.Messages[i].Payload)
		}
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		m := mirror.New(mirror.Config{Model: model, OrphanBlocks: 64, MaxBlocks: 256})
		held := [3]map[uint64]bool{{}, {}, {}}
		var b kvevents.Batch
		for _, payload := range [][]byte{first, second, first, second} {
			_ = kvevents.Decode(payload, &b) // what was readable counts
			d := m.Apply(&b)
			for tier := range held {
				follow(t, m, d, held[tier], mirror.Tier(tier))
			}
			invariants(t, m)
		}
	})
}

// follow applies a tier's delta strictly.
func follow(t *testing.T, m *mirror.Mirror, d *mirror.Delta, held map[uint64]bool, tier mirror.Tier) {
	t.Helper()
	if d.Reset {
		clear(held)
		for _, u := range m.Units(tier, nil) {
			held[u] = true
		}
		return
	}
	for _, u := range d.Tiers[tier].Removed {
		require.True(t, held[u])
		delete(held, u)
	}
	for _, u := range d.Tiers[tier].Added {
		require.False(t, held[u])
		held[u] = true
	}
	require.Len(t, m.Units(tier, nil), len(held))
}

func invariants(t *testing.T, m *mirror.Mirror) {
	t.Helper()
	st := m.Stats()
	require.LessOrEqual(t, st.OrphanBlocks, 64)
	require.GreaterOrEqual(t, st.Copies, st.Blocks)
	var sum kvblock.Digest
	for tier := mirror.GPU; tier <= mirror.Storage; tier++ {
		require.LessOrEqual(t, m.Blocks(tier), 256)
		sum.AddAll(m.Units(tier, nil))
	}
	require.Equal(t, sum.Value(), m.Digest())
	require.Equal(t, st.Units, m.Count())
}
