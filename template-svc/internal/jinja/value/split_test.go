package value

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// naiveSplit is str.split(None, limit) as Python's manual tells it: words are runs of other characters than whitespace,
// and after limit of them the rest is one part as it stands.
func naiveSplit(s string, limit int) []string {
	var out []string
	runes := []rune(s)
	for i := 0; ; {
		for i < len(runes) && IsSpace(runes[i]) {
			i++
		}
		if i == len(runes) {
			return out
		}
		if limit >= 0 && len(out) == limit {
			return append(out, string(runes[i:]))
		}
		start := i
		for i < len(runes) && !IsSpace(runes[i]) {
			i++
		}
		out = append(out, string(runes[start:i]))
	}
}

// backwards turns a text round.
func backwards(s string) string {
	runes := []rune(s)
	reverse(runes)
	return string(runes)
}

// TestSplitSpaceIsNaive compares both directions with the naive way; from the right is from the left of the text turned
// round.
func TestSplitSpaceIsNaive(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		var b strings.Builder
		for range rng.IntN(10) {
			b.WriteString([]string{"a", "é", " ", "\t", "\u00a0", "\u2003", "日"}[rng.IntN(7)])
		}
		s, limit := b.String(), rng.IntN(5)-1
		require.Empty(t, cmp.Diff(naiveSplit(s, limit), SplitSpace(s, limit)), "%q %d", s, limit)
		want := naiveSplit(backwards(s), limit)
		reverse(want)
		for i := range want {
			want[i] = backwards(want[i])
		}
		require.Empty(t, cmp.Diff(want, RSplitSpace(s, limit)), "%q %d from the right", s, limit)
	}
}
