package tokenizersvc

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLongestRun(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, text string
		want       int
	}{
		{"nothing", "", 0},
		{"one word", "sea", 3},
		{"words", "the sea is calm", 4},
		{"spaces", "a" + strings.Repeat(" ", 9) + "b", 9},
		{"all kinds of space", " \t\r\n\v\f", 6},
		{"letters of both cases", "abcXYZ", 6},
		{"characters of several bytes count with letters", "aé語", 6},
		{"digits never run", strings.Repeat("1", 100), 1},
		{"digits break words", "abc1def22gh", 3},
		{"marks", "a...---b", 6},
		{"control characters count as marks", "a\x00\x01\x02b", 3},
		{"base64 has short runs", "aGVsbG8gd29ybGQhIQ==", 7},
		{"run at the end", "a " + strings.Repeat("b", 7), 7},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, longestRun([]byte(row.text)))
		})
	}
}

// slowRun looks at every part of the text.
func slowRun(text []byte) int {
	longest := 0
	for from := range text {
		for to := from + 1; to <= len(text); to++ {
			same := true
			for _, b := range text[from:to] {
				same = same && kindOf(b) == kindOf(text[from])
			}
			if same && (kindOf(text[from]) != 0 || to-from == 1) {
				longest = max(longest, to-from)
			}
		}
	}
	return longest
}

func TestLongestRunEqualsSlowRun(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(21, 22))
	for range 2000 {
		text := make([]byte, rng.IntN(24))
		for i := range text {
			text[i] = "ab1 .\xc3"[rng.IntN(6)]
		}
		require.Equal(t, slowRun(text), longestRun(text), "%q", text)
	}
}

func TestEveryByteHasAKind(t *testing.T) {
	t.Parallel()
	counts := map[int]int{}
	for b := range 256 {
		counts[kindOf(byte(b))]++
	}
	require.Equal(t, map[int]int{0: 10, 1: 6, 2: 128 + 52, 3: 256 - 10 - 6 - 180}, counts)
}
