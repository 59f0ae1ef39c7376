package kvblock_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

// TestDigestAgainstSets applies random steps to a digest and to a counted set; equal sets must have equal digests.
func TestDigestAgainstSets(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(8, 9))
	var d kvblock.Digest
	count := map[uint64]int{}
	for range 2000 {
		unit := rnd.Uint64N(50) // few units, so that copies and removals meet
		if count[unit] > 0 && rnd.IntN(2) == 0 {
			d.Remove(unit)
			count[unit]--
		} else {
			d.Add(unit)
			count[unit]++
		}
		var flat []uint64
		for u, n := range count {
			for range n {
				flat = append(flat, u)
			}
		}
		require.Equal(t, kvblock.DigestOf(flat), d.Value())
	}
}

func TestDigestTellsSetsApart(t *testing.T) {
	t.Parallel()
	cases := map[string][]uint64{
		"empty":        {},
		"zero":         {0},
		"zero twice":   {0, 0},
		"1 and 4":      {1, 4},
		"2 and 3":      {2, 3}, // the sum of 1 and 4
		"1":            {1},
		"1 three ones": {1, 1, 1},
	}
	seen := map[uint64]string{}
	for name, units := range cases {
		v := kvblock.DigestOf(units)
		require.Empty(t, seen[v], "%s has the digest of another set", name)
		seen[v] = name
	}
	require.Zero(t, kvblock.DigestOf(nil))
}

func TestDigestRemoveAllUndoesAddAll(t *testing.T) {
	t.Parallel()
	units := []uint64{5, 0, 1 << 63, 5}
	d := kvblock.Digest{}
	d.Add(7)
	before := d.Value()
	d.AddAll(units)
	require.NotEqual(t, before, d.Value())
	d.RemoveAll([]uint64{0, 5, 5, 1 << 63})
	require.Equal(t, before, d.Value())
}

func TestHitLimit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name                string
		prompt, block, want int
	}{
		{"empty prompt", 0, 16, 0},
		{"negative", -3, 16, 0},
		{"unknown block size", 100, 0, 0},
		{"one token", 1, 16, 0},
		{"one block exactly keeps its last token", 16, 16, 0},
		{"one block and a token", 17, 16, 16},
		{"two blocks exactly", 32, 16, 16},
		{"larger blocks", 100, 48, 96},
		{"larger blocks exactly", 96, 48, 48},
		{"block of one", 5, 1, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, kvblock.HitLimit(row.prompt, row.block))
		})
	}
}
