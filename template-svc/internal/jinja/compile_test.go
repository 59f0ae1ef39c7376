package jinja

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLargeSources compiles sources near the size limit whose shapes would make
// a careless pass quadratic, and asks their trees the usual questions.
func TestLargeSources(t *testing.T) {
	t.Parallel()
	var sets, branches strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&sets, "{%% set v%d = v%d %%}", 20000-i-1, 20000-i)
		fmt.Fprintf(&branches, "{%% if a %%}{%% set b%d = 1 %%}{%% endif %%}", i)
	}
	for _, c := range []struct {
		name, source string
		undeclared   int
	}{
		{"chain of sets from the end", sets.String() + "{% set v20000 = messages %}", 2},
		{"a name per branch", branches.String(), 20001},
		{"one long line", strings.Repeat("{{ x.y|trim }}", 50000), 1},
		{"one wide list", "{{ [" + strings.Repeat("x, ", 200000) + "] }}", 1},
		{"deep loops around a wide body", nest("{% for i in l %}", strings.Repeat("{{ loop.index }}", 20000), "{% endfor %}", 90), 1},
		{"many macros and calls", strings.Repeat("{% macro m(c) %}{% for p in c %}{% endfor %}{% endmacro %}{{ m(1) }}", 8000), 0},
		{"braces without tags", strings.Repeat("{ { ", 200000), 0},
		{"half a raw tag", strings.Repeat("{% raw %}{% endraw", 1) + strings.Repeat("{% ", 200000) + "{% endraw %}", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tmpl, err := Compile(c.source, Limits{SourceBytes: 4 << 20})
			require.NoError(t, err)
			require.Len(t, tmpl.Undeclared(), c.undeclared)
			require.Equal(t, FormatString, tmpl.ContentFormat())
			require.Equal(t, FormatString, tmpl.ContentFormatOld())
		})
	}
}
