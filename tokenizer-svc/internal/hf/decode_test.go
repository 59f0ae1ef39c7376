//go:build cgo && !nohf

package hf_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hf"
)

// agreeOnIDs decodes random ids, unknown ones among them, in both engines.
func agreeOnIDs(t *testing.T, reference, fast *hf.Engine) {
	t.Helper()
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
		require.True(t, bytes.Equal(want, got), "ids %v, special tokens left out: %v", ids, skip)
	}
}

// addSpecials compares the post-processors: ids before a text where the tokenizer has some.
func addSpecials(t *testing.T, name string, engines ...*hf.Engine) {
	t.Helper()
	before := map[string]int{"bpe-old": 1}[name]
	for _, engine := range engines {
		for _, text := range []string{"", "x", "some words"} {
			plain, err := engine.AppendIDs(nil, []byte(text), false)
			require.NoError(t, err)
			full, err := engine.AppendIDs(nil, []byte(text), true)
			require.NoError(t, err)
			require.Len(t, full, before+len(plain))
			require.True(t, slices.Equal(plain, full[before:]))
		}
	}
}
