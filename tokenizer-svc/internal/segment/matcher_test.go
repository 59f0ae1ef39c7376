package segment

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// naive finds all matches by trying every token at every place.
func naive(tokens []string, text string) []match {
	var out []match
	for at := 0; at < len(text); {
		best := match{start: at, token: -1}
		for i, token := range tokens {
			if strings.HasPrefix(text[at:], token) && at+len(token) > best.end {
				best.end, best.token = at+len(token), i
			}
		}
		if best.token < 0 {
			at++
			continue
		}
		out = append(out, best)
		at = best.end
	}
	return out
}

func all(m *matcher, text string) []match {
	var out []match
	for at := 0; ; {
		found, ok := m.next([]byte(text), at, len(text))
		if !ok {
			return out
		}
		out = append(out, found)
		at = found.end
	}
}

func TestMatcher(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, text string
		tokens     []string
		want       []match
	}{
		{"nothing", "abc", []string{"<x>"}, nil},
		{"one", "a<x>b", []string{"<x>"}, []match{{1, 4, 0}}},
		{"longest wins", "<x><x>>", []string{"<x>", "<x>>"}, []match{{0, 3, 0}, {3, 7, 1}}},
		{"leftmost wins", "abcd", []string{"bcd", "ab"}, []match{{0, 2, 1}}},
		{"failed prefix", "<|im_<|im_end|>", []string{"<|im_end|>"}, []match{{5, 15, 0}}},
		{"first of two equal tokens", "xx", []string{"x", "x"}, []match{{0, 1, 0}, {1, 2, 0}}},
		{"several first bytes", "a｜<b", []string{"<b", "｜"}, []match{{1, 4, 1}, {4, 6, 0}}},
		{"at the end", "ab<x", []string{"<x>"}, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := all(newMatcher(row.tokens), row.text)
			require.Empty(t, cmp.Diff(row.want, got, cmp.AllowUnexported(match{})))
		})
	}
}

func TestMatcherStaysInItsPart(t *testing.T) {
	t.Parallel()
	m := newMatcher([]string{"<x>"})
	_, ok := m.next([]byte("a<x>b"), 0, 3)
	require.False(t, ok, "the token ends beyond the part")
	_, ok = m.next([]byte("<x>"), 1, 3)
	require.False(t, ok, "the token begins before the part")
}

func TestMatcherEqualsNaive(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	draw := func(n int) string {
		out := make([]byte, 1+rng.IntN(n))
		for i := range out {
			out[i] = "ab<|>"[rng.IntN(5)]
		}
		return string(out)
	}
	for range 4000 {
		tokens := make([]string, 1+rng.IntN(5))
		for i := range tokens {
			tokens[i] = draw(4)
		}
		text := draw(40)
		require.Empty(t, cmp.Diff(naive(tokens, text), all(newMatcher(tokens), text), cmp.AllowUnexported(match{})),
			"tokens %q, text %q", tokens, text)
	}
}

func FuzzMatcher(f *testing.F) {
	f.Add("<|im_start|>user<|im_end|>", "<|im_start|>", "<|im_end|>")
	f.Add("aaaa", "aa", "aaa")
	f.Fuzz(func(t *testing.T, text, a, b string) {
		if a == "" || b == "" || a == b || len(text) > 1<<12 {
			return
		}
		tokens := []string{a, b}
		require.Equal(t, naive(tokens, text), all(newMatcher(tokens), text))
	})
}
