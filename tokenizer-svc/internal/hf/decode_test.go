//go:build cgo && !nohf

package hf_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hf"
)

// TestEnginesDecodeAlike decodes random ids, unknown ones among them, in both engines.
func TestEnginesDecodeAlike(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"qwen3", "demo-model", "kimi", "bpe-old"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reference, fast := both(t, name)
			// Kimi's size includes ids that no token has; the others' ids are dense.
			limit := uint32(reference.VocabSize() + 50)
			rng := rand.New(rand.NewPCG(31, 32))
			var want, got []byte
			for range 3000 {
				ids := make([]uint32, rng.IntN(12))
				for i := range ids {
					ids[i] = rng.Uint32N(limit)
				}
				skip := rng.IntN(2) == 0
				var err error
				want, err = reference.AppendText(want[:0], ids, skip)
				require.NoError(t, err)
				got, err = fast.AppendText(got[:0], ids, skip)
				require.NoError(t, err)
				require.Equal(t, string(want), string(got), "ids %v, special tokens left out: %v", ids, skip)
			}
		})
	}
}

// TestSpecialTokensAreAdded compares the post-processors where a tokenizer has one.
func TestSpecialTokensAreAdded(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name          string
		before, after int
	}{
		{"qwen3", 0, 0},
		{"demo-model", 0, 0},
		{"bpe-old", 1, 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			reference, fast := both(t, row.name)
			for _, engine := range []*hf.Engine{reference, fast} {
				for _, text := range []string{"", "x", "some words"} {
					plain, err := engine.AppendIDs(nil, []byte(text), false)
					require.NoError(t, err)
					full, err := engine.AppendIDs(nil, []byte(text), true)
					require.NoError(t, err)
					require.Len(t, full, row.before+len(plain)+row.after)
					require.True(t, slices.Equal(plain, full[row.before:len(full)-row.after]))
				}
			}
		})
	}
}
