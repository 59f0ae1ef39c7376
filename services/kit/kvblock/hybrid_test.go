package kvblock_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

// TestBoundariesAreNoUnits: over a long chain no boundary, nor the mark, is one of the units, and each unit has its own.
func TestBoundariesAreNoUnits(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	ids := make([]uint32, 4096*kvblock.UnitTokens)
	for i := range ids {
		ids[i] = rng.Uint32N(150_000)
	}
	units := kvblock.AppendUnits(nil, kvblock.Namespace{Model: "m"}.Root(), ids, "")
	seen := map[uint64]bool{kvblock.HybridMark: true}
	for _, u := range units {
		require.False(t, seen[u])
		seen[u] = true
	}
	for _, u := range units {
		require.False(t, seen[kvblock.Boundary(u)])
		seen[kvblock.Boundary(u)] = true
	}
	require.Len(t, seen, 2*len(units)+1)
}

// TestBoundaryIsOnTheWire: adapters and schedulers of different versions must agree on it.
func TestBoundaryIsOnTheWire(t *testing.T) {
	t.Parallel()
	require.Equal(t, uint64(0x9b1c5e0f7a36d28d), kvblock.HybridMark)
	require.Equal(t, uint64(0xc2b2ae3d27d4eb4f), kvblock.Boundary(0))
	require.Equal(t, uint64(0xc2b2ae3d27d4eb4e), kvblock.Boundary(1))
}
