package jinja

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// render compiles and renders with variables given in JSON.
func render(t *testing.T, source, vars string) (string, error) {
	t.Helper()
	return renderGolden(source, varsOf(t, []byte(vars)))
}

func TestUndeclared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, source string
		want         []string
	}{
		{"read", "{{ a }}{{ b.c }}", []string{"a", "b"}},
		{"set before", "{% set a = 1 %}{{ a }}", nil},
		{"set from itself", "{% set a = a %}", []string{"a"}},
		{"set after", "{{ a }}{% set a = 1 %}", []string{"a"}},
		{"first set in a branch", "{% if x %}{% set a = 1 %}{% endif %}", []string{"a", "x"}},
		{"set in every branch", "{% if x %}{% set a = 1 %}{% else %}{% set a = 2 %}{% endif %}{{ a }}", []string{"a", "x"}},
		{"set before the branch", "{% set a = 0 %}{% if x %}{% set a = 1 %}{% endif %}", []string{"x"}},
		{"branch within a loop, known outside", "{% set a = 0 %}{% for i in l %}{% if i %}{% set a = 1 %}{% endif %}{% endfor %}", []string{"l"}},
		{"loop target and loop", "{% for i in l %}{{ i }}{{ loop.index }}{% endfor %}", []string{"l"}},
		{"loop outside", "{{ loop }}", []string{"loop"}},
		{"loop target afterwards", "{% for i in l %}{% endfor %}{{ i }}", []string{"i", "l"}},
		{"macro parameters", "{% macro m(a, b=c) %}{{ a }}{{ b }}{{ d }}{% endmacro %}{{ m() }}", []string{"c", "d"}},
		{"caller and the like", "{% macro m() %}{{ caller() }}{{ varargs }}{{ kwargs }}{% endmacro %}", nil},
		{"caller outside", "{{ caller }}", []string{"caller"}},
		{"late top-level set seen by a macro", "{% macro m() %}{{ a }}{% endmacro %}{% set a = 1 %}", nil},
		{"namespace attribute", "{% set ns.a = 1 %}", []string{"ns"}},
		{"globals", "{{ range }}{{ dict }}{{ lipsum }}{{ cycler }}{{ joiner }}{{ namespace }}", nil},
		{"added globals", "{{ raise_exception }}{{ strftime_now }}", nil},
		{"with", "{% with a=b %}{{ a }}{{ c }}{% endwith %}{{ a }}", []string{"a", "b", "c"}},
		{"set block", "{% set a %}{{ b }}{% endset %}{{ a }}", []string{"b"}},
		{"filter block", "{% filter f(x) %}{{ y }}{% endfilter %}"[0:0] + "{% filter default(x) %}{{ y }}{% endfilter %}", []string{"x", "y"}},
		{"generation", "{% generation %}{% set g = 1 %}{{ h }}{% endgeneration %}{{ g }}", []string{"g", "h"}},
		{"block sees no top level", "{% set a = 1 %}{% block b %}{{ a }}{% endblock %}", []string{"a"}},
		{"loop filter", "{% for i in l if i and j %}{% endfor %}", []string{"j", "l"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tmpl, err := Compile(c.source, Limits{})
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(c.want, tmpl.Undeclared()))
		})
	}
}

func TestContentFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, source, old, now string
	}{
		{"no loop", "{% for m in messages %}{{ m.content }}{% endfor %}", FormatString, FormatString},
		{"attribute", "{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}", FormatOpenAI, FormatOpenAI},
		{"item", "{% for m in messages %}{% for p in m['content'] %}{% endfor %}{% endfor %}", FormatOpenAI, FormatOpenAI},
		{"through filter, test and slice", "{% for m in messages[1:]|list %}{% for p in m.content[:2]|list %}{% endfor %}{% endfor %}", FormatOpenAI, FormatOpenAI},
		{"conversation under another name", "{% set l = messages %}{% set k = l[1:] %}{% for m in k %}{% for p in m.content %}{% endfor %}{% endfor %}", FormatOpenAI, FormatOpenAI},
		{"another list", "{% for m in others %}{% for p in m.content %}{% endfor %}{% endfor %}", FormatString, FormatString},
		{"macro parameter", "{% macro r(c) %}{% for p in c %}{% endfor %}{% endmacro %}{% for m in messages %}{{ r(m.content) }}{% endfor %}", FormatString, FormatOpenAI},
		{"macro keyword", "{% macro r(a, c=1) %}{% for p in c %}{% endfor %}{% endmacro %}{% for m in messages %}{{ r(1, c=m['content']) }}{% endfor %}", FormatString, FormatOpenAI},
		{"macro with another argument", "{% macro r(c) %}{% for p in c %}{% endfor %}{% endmacro %}{% for m in messages %}{{ r(m.tools) }}{% endfor %}", FormatString, FormatString},
		{"bare content", "{% for m in messages %}{% set content = m.content %}{% for p in content %}{% endfor %}{% endfor %}", FormatString, FormatOpenAI},
		{"bare content in a macro", "{% macro r() %}{% for p in content %}{% endfor %}{% endmacro %}", FormatString, FormatString},
		{"conversation to a tuple", "{% set a, b = messages %}{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}", FormatString, FormatString},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tmpl, err := Compile(c.source, Limits{})
			require.NoError(t, err)
			require.Equal(t, c.old, tmpl.ContentFormatOld())
			require.Equal(t, c.now, tmpl.ContentFormat())
		})
	}
}

// TestErrorPlace checks line and column of errors, which stay out of messages.
func TestErrorPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, source, typ string
		line, col         int
	}{
		{"attribute", "a\n  {{ x.y.z }}", "UndefinedError", 2, 7},
		{"operator", "{{ 1 }}\n\n{{ 'é' + 1 }}", "TypeError", 3, 4},
		{"filter", "{% if 1 %}\n{{ 5|dictsort }}{% endif %}", "AttributeError", 2, 6},
		{"statement", "x\r\ny {% set a, b = 1 %}", "TypeError", 2, 6},
		{"inside a macro", "{% macro m() %}\n{{ none + 1 }}\n{% endmacro %}\n{{ m() }}", "TypeError", 2, 4},
		{"syntax", "a\n{{ 1 + }}", "TemplateSyntaxError", 2, 8},
		{"unknown filter", "\n\n {{ a|nope }}", "TemplateAssertionError", 3, 7},
		{"lexer", "é{{ 'a }}", "TemplateSyntaxError", 1, 5},
		{"raised", "{% for i in [1] %}\n{{ raise_exception('no') }}{% endfor %}", "TemplateError", 2, 19},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := render(t, c.source, "{}")
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.typ, e.Type)
			require.Equal(t, []int{c.line, c.col}, []int{e.Line, e.Col}, e.Error())
			require.NotContains(t, e.Message, "line")
			require.Contains(t, e.Error(), e.Message)
		})
	}
}

// TestVars shows which of a repeated name counts and that variables beat the
// environment's own names.
func TestVars(t *testing.T) {
	t.Parallel()
	tmpl, err := Compile("{{ a }}{{ range }}{{ unused is defined }}", Limits{})
	require.NoError(t, err)
	out, err := tmpl.Render(context.Background(), []byte(">"), Env{Vars: []Var{
		{Name: "a", Value: value.Int(1)},
		{Name: "other", Value: value.Int(9)},
		{Name: "a", Value: value.Int(2)},
		{Name: "range", Value: value.Str("mine")},
	}})
	require.NoError(t, err)
	require.Equal(t, ">2mineFalse", string(out))
}

func TestClock(t *testing.T) {
	t.Parallel()
	tmpl, err := Compile("{{ strftime_now('%d %b %Y %H:%M%z') }}", Limits{})
	require.NoError(t, err)
	zone := time.FixedZone("X", 5*3600)
	now := func() time.Time { return time.Date(2026, 1, 9, 23, 5, 0, 0, zone) }
	out, err := tmpl.Render(context.Background(), nil, Env{Now: now})
	require.NoError(t, err)
	require.Equal(t, "09 Jan 2026 23:05", string(out))
	_, err = tmpl.Render(context.Background(), nil, Env{})
	require.NoError(t, err)
}

// TestConcurrent renders one template with shared values in many goroutines.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	tmpl, err := Compile("{% set ns = namespace(n=0) %}{% macro m(x) %}{{ x|upper }}{% endmacro %}"+
		"{% for k, v in d.items() if v %}{% set ns.n = ns.n + v %}{{ m(k) }}{{ loop.index }}{% endfor %}{{ ns.n }}{{ d|tojson }}", Limits{})
	require.NoError(t, err)
	vars := varsOf(t, []byte(`{"d": {"a": 1, "b": 0, "c": 3}}`))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var buf []byte
			for range 200 {
				var err error
				buf, err = tmpl.Render(context.Background(), buf[:0], Env{Vars: vars})
				if err != nil || string(buf) != `A1C24{"a": 1, "b": 0, "c": 3}` {
					t.Errorf("%s, %v", buf, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestWalk visits parents first and leaves out what the visitor refuses.
func TestWalk(t *testing.T) {
	t.Parallel()
	tmpl, err := Compile("{% for m in l %}{{ m.a|f }}{% endfor %}{% if x %}{{ y }}{% endif %}"[0:0]+
		"{% for m in l %}{{ m.a|list }}{% endfor %}{% if x %}{{ y }}{% endif %}", Limits{})
	require.NoError(t, err)
	var all, outside []string
	tmpl.Walk(func(n syntax.Node) bool {
		if name, ok := n.(*syntax.Name); ok {
			all = append(all, name.Name)
		}
		return true
	})
	tmpl.Walk(func(n syntax.Node) bool {
		if name, ok := n.(*syntax.Name); ok {
			outside = append(outside, name.Name)
		}
		_, loop := n.(*syntax.For)
		return !loop
	})
	require.Equal(t, "m l m x y", strings.Join(all, " "))
	require.Equal(t, "x y", strings.Join(outside, " "))
	require.Same(t, tmpl.Tree(), tmpl.Tree())
}

func TestFromJSONFacade(t *testing.T) {
	t.Parallel()
	v, err := FromJSON([]byte(`{"a": 1}`))
	require.NoError(t, err)
	require.Equal(t, 1, v.AsDict().Len())
}
