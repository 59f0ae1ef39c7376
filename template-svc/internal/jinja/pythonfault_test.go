package jinja

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPythonFaults: what Python finds in the code that Jinja2 generates is refused when a template is compiled, reached
// or not, after all of Jinja2's own faults. Types and messages are those of Jinja2 3.1.6 on CPython 3.11 without the
// place in that code; line and column are the template's.
func TestPythonFaults(t *testing.T) {
	t.Parallel()
	const (
		syntaxError = "SyntaxError"
		repeated    = "keyword argument repeated: "
	)
	for _, c := range []struct {
		name, source, typ, message string
		line                       int
	}{
		{"keyword of a call", "{{ f(a=1, b=2, a=3) }}", syntaxError, repeated + "a", 1},
		{"keyword of a call that is not reached", "{% if false %}\n{{ f(a=1, a=3) }}{% endif %}", syntaxError, repeated + "a", 2},
		{"keyword of a method", "{{ 'x'.format(a=1, a=2) }}", syntaxError, repeated + "a", 1},
		{"keyword of a filter", "{{ x|default(boolean=true, boolean=false) }}", syntaxError, repeated + "boolean", 1},
		{"keyword of a test", "{{ x is sameas(other=1, other=2) }}", syntaxError, repeated + "other", 1},
		{"keyword of a filter block", "{% filter indent(width=1, width=2) %}{% endfilter %}", syntaxError, repeated + "width", 1},
		{"keyword in a macro that is not called", "{% macro m() %}{{ f(a=1, a=2) }}{% endmacro %}", syntaxError, repeated + "a", 1},
		{"keyword in a default", "{% macro m(a=f(b=1, b=2)) %}{% endmacro %}", syntaxError, repeated + "b", 1},
		{"caller of a call block", "{% call m(caller=1) %}{% endcall %}", syntaxError, repeated + "caller", 1},
		{"the first repeated one is told", "{{ f(a=1, b=1, b=2, a=2) }}", syntaxError, repeated + "b", 1},
		{"parameter of a macro", "\n{% macro m(a, b, a) %}{% endmacro %}", syntaxError, "duplicate argument 'l_1_a' in function definition", 2},
		{
			"parameter of a macro in a macro", "{% macro n() %}{% macro m(a, a) %}{% endmacro %}{% endmacro %}", syntaxError,
			"duplicate argument 'l_2_a' in function definition", 1,
		},
		{
			"parameter of a macro in a loop", "{% for i in x %}{% macro m(a=1, a=2) %}{% endmacro %}{% endfor %}", syntaxError,
			"duplicate argument 'l_2_a' in function definition", 1,
		},
		{"parameter of a call block", "{% call(a, a) m() %}{% endcall %}", syntaxError, "duplicate argument 'l_1_a' in function definition", 1},
		{"break outside a loop", "a\n{% break %}", syntaxError, "'break' outside loop", 2},
		{"continue in a macro within a loop", "{% for i in x %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}", syntaxError, "'continue' not properly in loop", 1},
		{"a slice among others", "{{ a[1:2, 3] }}", syntaxError, "invalid syntax", 1},
		{"parameters come before keywords", "{{ f(a=1, a=2) }}{% macro m(b, b) %}{% endmacro %}", syntaxError, "duplicate argument 'l_1_b' in function definition", 1},
		{"slices come before parameters", "{% macro m(b, b) %}{% endmacro %}{{ a[1:2, 3] }}", syntaxError, "invalid syntax", 1},
		{"the first of a pass counts", "{% break %}{{ f(a=1, a=2) }}", syntaxError, "'break' outside loop", 1},
		{"Jinja2's own come before", "{% break %}{{ f(a=1, a=2) }}{{ x|nope }}", "TemplateAssertionError", "No filter named 'nope'.", 1},
		{"the outermost unknown filter is told", "{{ x|inner|outer }}", "TemplateAssertionError", "No filter named 'outer'.", 1},
		{"of a filter block too", "{% filter inner|outer %}{% endfilter %}", "TemplateAssertionError", "No filter named 'outer'.", 1},
		{"a test around a filter", "{{ x|inner is outer }}", "TemplateAssertionError", "No test named 'outer'.", 1},
		{"in ends no target", "{% for a, in b %}{% endfor %}", "TemplateSyntaxError", "expected token 'in', got 'b'", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile(c.source, Limits{})
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.typ, e.Type)
			require.Equal(t, c.message, e.Message)
			require.Equal(t, c.line, e.Line)
		})
	}
}

// TestKeywordsThatRepeatAllTheSame: with a word of Python's among them keywords travel in a dict, and the last one wins.
func TestKeywordsThatRepeatAllTheSame(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"{{ dict(class=1, class=2) }}":              "{'class': 2}",
		"{{ dict(a=1, a=2, if=3) }}":                "{'a': 2, 'if': 3}",
		"{{ dict(a=1, **{'b': 2}) }}":               "{'a': 1, 'b': 2}",
		"{% include [] ignore missing %}ok":         "ok",
		"{% include none ignore missing %}ok":       "ok",
		"{% for a in [1], recursive %}{% endfor %}": "",
	} {
		got, err := render(t, source, "{}")
		require.NoError(t, err, source)
		require.Equal(t, want, got, source)
	}
}
