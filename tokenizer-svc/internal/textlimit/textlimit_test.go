package textlimit

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
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

func TestCheck(t *testing.T) {
	t.Parallel()
	limits := Limits{Text: 100, ReferenceText: 50, Run: 10}
	words := func(n int) string { return strings.Repeat("ab ", n)[:n] }
	for _, row := range []struct {
		name, text string
		fast       bool
		want       string
	}{
		{"all of the limit", words(100), true, ""},
		{"one byte more", words(101), true, "the text has 101 bytes, more than the limit of 100"},
		{"all of the reference's limit", words(50), false, ""},
		{"one byte more for the reference", words(51), false, "the text has 51 bytes, more than the limit of 50"},
		{"all of a run", strings.Repeat("a", 10), true, ""},
		{"one letter more", "b " + strings.Repeat("a", 11), true, "the text has a run of 11 bytes of one kind"},
		{"digits are no run", strings.Repeat("1", 40), false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			err := limits.Check([]byte(row.text), row.fast)
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
			require.Equal(t, faultv1.Reason_REASON_TOO_LARGE, fault.ReasonOf(err))
		})
	}
}
