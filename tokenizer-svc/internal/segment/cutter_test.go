package segment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
)

func pieces(c *Cutter, text string, minBytes int) []string {
	var out []string
	start := 0
	for _, end := range c.AppendCuts(nil, []byte(text), minBytes) {
		out = append(out, text[start:end])
		start = end
	}
	return out
}

func TestCutter(t *testing.T) {
	t.Parallel()
	raw := []definition.CutToken{{Content: "<a>", After: true}, {Content: "<strip>"}, {Content: "<a>>", After: true}}
	second := []definition.CutToken{{Content: "[b]", After: true}, {Content: "a>", After: true}}
	rows := []struct {
		name, text string
		min        int
		want       []string
	}{
		{"empty", "", 1, []string{""}},
		{"no token", "text", 1, []string{"text"}},
		{"after each token", "x<a>y<a>z", 1, []string{"x<a>", "y<a>", "z"}},
		{"token at the end", "x<a>", 1, []string{"x<a>"}},
		{"longest token", "x<a>>y", 1, []string{"x<a>>", "y"}},
		{"never after a stripping token", "x<strip> y<a>z", 1, []string{"x<strip> y<a>", "z"}},
		{"second pass between tokens of the first", "x[b]y<a>z[b]w", 1, []string{"x[b]", "y<a>", "z[b]", "w"}},
		{"second pass never inside a token of the first", "<a>x", 1, []string{"<a>", "x"}},
		{"second pass where the first has none", "ba>x", 1, []string{"ba>", "x"}},
		{"short pieces join", "<a>user<a>x<a>", 8, []string{"<a>user<a>", "x<a>"}},
		{"the last piece may be short", "0123456789<a>x", 8, []string{"0123456789<a>", "x"}},
	}
	cutter := NewCutter(definition.Cut{Raw: raw, Second: second})
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, cmp.Diff(row.want, pieces(cutter, row.text, row.min)))
		})
	}
}

func TestEqualBeginningsGiveEqualPieces(t *testing.T) {
	t.Parallel()
	cutter := NewCutter(definition.Cut{Raw: []definition.CutToken{{Content: "<e>", After: true}}})
	turn1 := "a system prompt<e>a question of the user<e>"
	turn2 := turn1 + "an answer<e>another question<e>"
	first, second := pieces(cutter, turn1, 10), pieces(cutter, turn2, 10)
	require.Equal(t, first, second[:len(first)])
}

func TestNoCutterWhereRefused(t *testing.T) {
	t.Parallel()
	require.Nil(t, NewCutter(definition.Cut{Refused: "because"}))
}

func TestCutterWithOnePassOnly(t *testing.T) {
	t.Parallel()
	token := []definition.CutToken{{Content: "<a>", After: true}}
	want := []string{"x<a>", "y"}
	require.Equal(t, want, pieces(NewCutter(definition.Cut{Raw: token}), "x<a>y", 1))
	require.Equal(t, want, pieces(NewCutter(definition.Cut{Second: token}), "x<a>y", 1))
}
