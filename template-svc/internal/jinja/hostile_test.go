package jinja

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// hostileLimits keep the cases quick: what ends within them ends within the
// defaults, which are larger by a factor.
func hostileLimits() Limits {
	return Limits{Steps: 300_000, MadeBytes: 8 << 20}
}

func nest(open, core, end string, n int) string {
	return strings.Repeat(open, n) + core + strings.Repeat(end, n)
}

// hostileCases are templates that try to end or stall the process; each ends
// with one of the kinds of limit, a Python error, or harmlessly.
var hostileCases = []struct {
	name, source string
	kinds        []limit.Kind // nil: a Python error or text
}{
	{"endless rounds", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", k(limit.Steps)},
	{"string doubling", "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", k(limit.Made)},
	{"tilde doubling", "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", k(limit.Made)},
	{"list doubling", "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", k(limit.Made)},
	{"repeat", "{{ 'x' * 99999999999 }}", k(limit.Made)},
	{"repeat list", "{{ [1] * 99999999999 }}", k(limit.Made)},
	{"power", "{{ 9 ** (9 ** 9) }}", k(limit.Power)},
	{"power of power", "{% set ns = namespace(x=3) %}{% for i in range(99) %}{% set ns.x = ns.x ** 3 %}{% endfor %}", k(limit.Power, limit.Steps)},
	{"big products", "{% set x = 7 ** 300000 %}{% for i in range(9999) %}{{ x * x // (x + 1) }}{% endfor %}", nil},
	{"center", "{{ 'x'|center(999999999) }}", k(limit.Padding)},
	{"ljust", "{{ 'x'.ljust(999999999) }}", k(limit.Padding)},
	{"zfill", "{{ '1'.zfill(999999999) }}", k(limit.Padding)},
	{"expandtabs", "{{ ('\t' * 99999).expandtabs(99999) }}", k(limit.Made)},
	{"printf width", "{{ '%999999999d' % 1 }}", k(limit.Padding)},
	{"printf star", "{{ '%*d' % (999999999, 1) }}", k(limit.Padding)},
	{"printf precision", "{{ '%.999999999f' % 1 }}", k(limit.Padding)},
	{"format width", "{{ '{:999999999}'.format(1) }}", k(limit.Padding)},
	{"format nested width", "{{ '{:{}}'.format(1, 999999999) }}", k(limit.Padding)},
	{"indent", "{{ ('\n' * 99999)|indent(9999) }}", k(limit.Made)},
	{"tojson indent", "{{ [[[[1]]]]|tojson(indent=99999999) }}", k(limit.Padding)},
	{"replace", "{{ ('x' * 99999)|replace('', 'y' * 99999) }}", k(limit.Made)},
	{"join", "{{ range(99999)|join('y' * 99999) }}", k(limit.Made)},
	{"method join", "{{ ('y' * 99999).join(['a'] * 99999) }}", k(limit.Made)},
	{"split to cells", "{{ ('x,' * 2000000).split(',')|length }}", k(limit.Made)},
	{"list of characters", "{{ ('x' * 4000000)|list|length }}", k(limit.Made, limit.Steps)},
	{"splitlines", "{{ ('\n' * 4000000).splitlines()|length }}", k(limit.Made, limit.Steps)},
	{"range", "{{ range(10 ** 18)|list }}", nil},
	{"big range", "{{ range(10 ** 30) }}", nil},
	{"macro recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", k(limit.Depth)},
	{"mutual recursion", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", k(limit.Depth)},
	{"caller recursion", "{% macro m() %}{{ caller }}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}", k(limit.Depth)},
	{"recursive loop", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", k(limit.Depth)},
	{"block recursion", "{% block a %}{{ self.a() }}{% endblock %}", k(limit.Depth)},
	{"macro tree", "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}", k(limit.Steps)},
	{"namespace cycle", "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", k(limit.Depth)},
	{"namespace cycle in list", "{% set ns = namespace() %}{% set ns.me = [{'a': ns}] %}{{ ns.me|string|length }}", k(limit.Depth)},
	{"deep list", deep("[ns.l]") + "{{ ns.l }}", k(limit.Depth)},
	{"deep list to JSON", deep("[ns.l]") + "{{ ns.l|tojson }}", k(limit.JSONDepth)},
	{"deep list compared", deep("[ns.l]") + "{% set a = ns.l %}" + deep("[ns.l]") + "{{ a == ns.l }}{{ a < ns.l }}", k(limit.Depth)},
	{"deep list pretty", deep("[ns.l]") + "{{ ns.l|pprint }}", k(limit.Depth)},
	{"deep tuple as key", deep("(ns.l,)") + "{{ {ns.l: 1} }}", k(limit.Depth)},
	{"deep tuple in dict", deep("(ns.l,)") + "{{ ns.l in {} }}{{ [ns.l]|unique|list|length }}", k(limit.Depth)},
	{"deep generators", deep("ns.l|map('string')") + "{{ ns.l|list }}", k(limit.Depth)},
	{"deep selects", deep("ns.l|select") + "{{ ns.l|first }}", k(limit.Depth)},
	{"generator of itself", "{% set ns = namespace(g=[1]) %}{% for i in range(9) %}{% set ns.g = ns.g|map('list') %}{% endfor %}{{ ns.g|list }}", nil},
	{"many generators", "{% set ns = namespace(g=[]) %}{% for i in range(99999) %}{% set ns.g = [ns.g, [1]|map('list')] %}{% endfor %}", k(limit.Made, limit.Steps)},
	{"bytes doubling", "{% set ns = namespace(s='xxxxxxxx'.encode()) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", k(limit.Made)},
	{"bytes repeated", "{{ 'x'.encode() * 99999999999 }}", k(limit.Made)},
	{"bytes joined", "{{ ('y' * 99999).encode().join(['a'.encode()] * 99999) }}", k(limit.Made)},
	{"bytes replaced", "{{ ('x' * 99999).encode().replace(''.encode(), ('y' * 99999).encode()) }}", k(limit.Made)},
	{"bytes padded", "{{ 'x'.encode().ljust(999999999) }}", k(limit.Padding)},
	{"bytes zfill", "{{ '1'.encode().zfill(999999999) }}", k(limit.Padding)},
	{"bytes printf width", "{{ '%999999999d'.encode() % 1 }}{{ '%*s'.encode() % (999999999, 'a'.encode()) }}", k(limit.Padding)},
	{"bytes expandtabs", "{{ ('\t' * 99999).encode().expandtabs(99999) }}", k(limit.Made)},
	{"bytes split to cells", "{{ ('x,' * 2000000).encode().split(','.encode())|length }}", k(limit.Made, limit.Steps)},
	{"bytes to lines", "{{ ('\n' * 2000000).encode().splitlines()|length }}", k(limit.Made, limit.Steps)},
	{"bytes as a list", "{{ ('x' * 4000000).encode()|list|length }}", k(limit.Made, limit.Steps)},
	{"bytes hex", "{{ ('x' * 3000000).encode().hex('-') }}", k(limit.Made, limit.Steps)},
	{"bytes from hex", "{% for i in range(999) %}{{ ''.encode().fromhex('00' * 300000)|length }}{% endfor %}", k(limit.Made)},
	{"bytes stripped", "{% set c = ('ab' * 90000).encode() %}{% for i in range(99) %}{{ c.strip(c)|length }}{% endfor %}", k(limit.Steps, limit.Made)},
	{"encode by references", "{{ ('é' * 1500000).encode('ascii', 'xmlcharrefreplace')|length }}", k(limit.Made, limit.Steps)},
	{"decode by escapes", "{{ ('é' * 900000).encode('latin-1').decode('ascii', 'backslashreplace')|length }}", k(limit.Made, limit.Steps)},
	{"int to bytes", "{{ (1).to_bytes(999999999999) }}", k(limit.Made)},
	{"int to too many bytes", "{{ (1).to_bytes(10 ** 30) }}", nil},
	{"int from bytes", "{{ (1).from_bytes(('x' * 200000).encode()) }}", k(limit.Power)},
	{"int from a range", "{{ (1).from_bytes(range(99999)) }}{{ (1).from_bytes([1] * 200000) }}", nil},
	{"bytes in bytes", "{% set c = ('a' * 900000).encode() %}{% for i in range(9999) %}{{ 'b'.encode() in c }}{% endfor %}", k(limit.Steps)},
	{"brackets", "{{ " + nest("(", "1", ")", 5000) + " }}", k(limit.Depth)},
	{"lists", "{{ " + nest("[", "1", "]", 5000) + " }}", k(limit.Depth)},
	{"dicts", "{{ " + nest("{1:", "1", "}", 5000) + " }}", k(limit.Depth)},
	{"nots", "{{ " + strings.Repeat("not ", 5000) + "1 }}", k(limit.Depth)},
	{"signs", "{{ " + strings.Repeat("-", 5000) + "1 }}", k(limit.Depth)},
	{"sum chain", "{{ 1" + strings.Repeat(" + 1", 5000) + " }}", k(limit.Depth)},
	{"attribute chain", "{{ a" + strings.Repeat(".a", 5000) + " }}", k(limit.Depth)},
	{"filter chain", "{{ 1" + strings.Repeat("|string", 5000) + " }}", k(limit.Depth)},
	{"call chain", "{{ a" + strings.Repeat("()", 5000) + " }}", k(limit.Depth)},
	{"inline ifs", "{{ 1" + strings.Repeat(" if 1 else 1", 5000) + " }}", k(limit.Depth)},
	{"statements", nest("{% if 1 %}", "x", "{% endif %}", 5000), k(limit.Depth)},
	{"loops", nest("{% for x in [1, 2] %}", "x", "{% endfor %}", 5000), k(limit.Depth)},
	{"elifs in a loop", "{% for i in range(99999) %}{% if 0 %}" + strings.Repeat("{% elif i < 0 %}", 3000) + "{% endif %}{% endfor %}", k(limit.Steps)},
	{"wide output in a loop", "{% for i in range(99999) %}" + strings.Repeat("{{ e }}", 3000) + "{% endfor %}", k(limit.Steps)},
	{"wide concat in a loop", "{% for i in range(99999) %}{{ e" + strings.Repeat(" ~ e", 3000) + " }}{% endfor %}", k(limit.Steps)},
	{"wide call in a loop", "{% for i in range(99999) %}{{ dict(" + strings.Repeat("e, ", 3000) + "e) }}{% endfor %}", nil},
	{"many locals in a loop", "{% for i in range(99999) %}{% if 0 %}" + locals(3000) + "{% endif %}{% endfor %}", k(limit.Steps)},
	{"many locals in a macro", "{% macro m() %}{% if 0 %}" + locals(3000) + "{% endif %}{% endmacro %}" +
		"{% for i in range(99999) %}{{ m() }}{% endfor %}", k(limit.Steps, limit.Made)},
	{"macro that keeps its record", "{% set ns = namespace(l=[]) %}{% macro m() %}" + locals(500) +
		"{% macro i() %}{% endmacro %}{% set ns.l = [ns.l, i] %}{% endmacro %}{% for i in range(99999) %}{{ m() }}{% endfor %}", k(limit.Made, limit.Steps)},
	{"long compare", "{% set a = 'x' * 999999 %}{% set b = 'x' * 999999 %}{% for i in range(99999) %}{{ a == b }}{% endfor %}", k(limit.Steps)},
	{"long search", "{% set a = 'x' * 999999 %}{% for i in range(99999) %}{{ a.find('y') }}{{ 'y' in a }}{% endfor %}", k(limit.Steps)},
	{"long key", "{% set a = 'x' * 999999 %}{% for i in range(99999) %}{{ {}[a] }}{{ {'a': 1}.get(a) }}{% endfor %}", k(limit.Steps)},
	{"long length", "{% set a = 'é' * 999999 %}{% for i in range(99999) %}{{ a|length }}{{ a[-1] }}{% endfor %}", k(limit.Steps)},
	{"long strip", "{% set a = ' ' * 999999 %}{% for i in range(99999) %}{{ a|trim }}{{ a.strip(' ') }}{% endfor %}", k(limit.Steps)},
	{"wordwrap", "{{ ('x' * 99999 ~ ' y' * 99999)|wordwrap(1)|length }}", nil},
	{"wordwrap hyphens", "{{ ('-' * 200000)|wordwrap(1)|length }}", nil},
	{"urlize brackets", "{{ ('(' * 50000 ~ 'a' ~ ')' * 50000)|urlize|length }}", nil},
	{"urlize address", "{{ ('http://' ~ 'a.' * 50000)|urlize|length }}", nil},
	{"striptags", "{{ ('<' * 99999)|striptags|length }}", nil},
	{"sort", "{{ range(99999)|map('string')|sort|length }}", k(limit.Steps, limit.Made)},
	{"groupby", "{{ (range(99999)|list)|groupby('real')|length }}", k(limit.Steps, limit.Made)},
	{"batch", "{{ [1]|batch(9999999999, 0)|list }}", k(limit.Made)},
	{"slice", "{{ [1]|slice(9999999999)|list }}", k(limit.Steps, limit.Made)},
	{"lipsum", "{{ lipsum(n=999999999) }}", k(limit.Steps, limit.Made)},
	{"cycler", "{% set c = cycler(1) %}{% for i in range(99999) %}{% for j in range(9) %}{{ c.next() }}{% endfor %}{% endfor %}", k(limit.Steps)},
	{"strftime", "{{ strftime_now('%999d' * 99999)|length }}", k(limit.Made)},
	{"int of digits", "{{ ('9' * 999999)|int }}", nil},
	{"text of a big int", "{{ (7 ** 100000)|string|length }}", nil},
	{"hex of a big int", "{% for i in range(9999) %}{{ '%x' % (7 ** 100000) }}{% endfor %}", k(limit.Made, limit.Steps)},
	{"round", "{% set x = 7 ** 300000 %}{% for i in range(9999) %}{{ x|round(-200000) }}{% endfor %}", nil},
	{"float division", "{% set x = 7 ** 300000 %}{% for i in range(9999) %}{{ x / (x - 1) }}{% endfor %}", k(limit.Steps, limit.Made)},
	{"sandbox", "{{ ''.__class__.__mro__[1].__subclasses__() }}", nil},
	{"sandbox format", "{{ '{0.__class__.__mro__}'.format('') }}", nil},
	{"mutation", "{% set l = [] %}{% for i in range(9) %}{{ l.append(l) }}{% endfor %}", nil},
	{"unpack", "{% set a, b = range(99999) %}", nil},
	{"lengths of loops", "{% for x in range(9999)|map('string') %}{{ loop.length }}{{ loop.last }}{% endfor %}", nil},
	{"loop in loop text", "{% for x in [1]|map('string') %}{% set ns = namespace(l=loop) %}{{ [loop, ns] }}{% endfor %}", nil},
}

func k(kinds ...limit.Kind) []limit.Kind { return kinds }

// deep wraps a value in itself some thousand times.
func deep(wrap string) string {
	return "{% set ns = namespace(l=(1,)) %}{% for i in range(5000) %}{% set ns.l = " + wrap + " %}{% endfor %}"
}

func locals(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("{% set v" + string(rune('a'+i%26)) + strings.Repeat("x", i/26%20) + string(rune('a'+i/520)) + " = 1 %}")
	}
	return b.String()
}

// TestHostile renders every hostile template; after each the same compiled
// engine still renders a plain one.
func TestHostile(t *testing.T) {
	t.Parallel()
	plain, err := Compile("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(1) }}{{ [1, 2]|join(',') }}", Limits{})
	require.NoError(t, err)
	for _, c := range hostileCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tmpl, err := Compile(c.source, hostileLimits())
			if err == nil {
				_, err = tmpl.Render(context.Background(), nil, Env{})
			}
			var passed *LimitError
			if c.kinds == nil {
				if errors.As(err, &passed) {
					require.NotEqual(t, limit.Time, passed.Kind)
				}
				requireNoFault(t, err)
			} else {
				require.ErrorAs(t, err, &passed)
				require.Contains(t, c.kinds, passed.Kind)
			}
			out, err := plain.Render(context.Background(), nil, Env{})
			require.NoError(t, err)
			require.Equal(t, "<1>1,2", string(out))
		})
	}
}

// requireNoFault fails for an error that no template should meet.
func requireNoFault(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if errors.As(err, &e) {
		require.NotEqual(t, "SystemError", e.Type, e.Message)
	}
}

// TestCancelled ends a render whose context is done, within some steps.
func TestCancelled(t *testing.T) {
	t.Parallel()
	tmpl, err := Compile("{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}", Limits{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out, err := tmpl.Render(ctx, []byte("kept"), Env{})
	require.ErrorIs(t, err, context.Canceled)
	var passed *LimitError
	require.ErrorAs(t, err, &passed)
	require.Equal(t, limit.Time, passed.Kind)
	require.Equal(t, "kept", string(out))
}

// TestLimitSettings shows that each limit is a setting with its own error.
func TestLimitSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, source string
		limits       Limits
		want         limit.Kind
	}{
		{"source", "{{ 1 }}          ", Limits{SourceBytes: 10}, limit.Source},
		{"depth of syntax", "{{ ((((1)))) }}", Limits{Depth: 4}, limit.Depth},
		{"depth of calls", "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(9) }}", Limits{Depth: 8}, limit.Depth},
		{"steps", "{% for i in range(20) %}{% endfor %}", Limits{Steps: 10}, limit.Steps},
		{"made", "{{ 'x' * 2000 }}", Limits{MadeBytes: 1000}, limit.Made},
		{"padding", "{{ 'x'|center(11) }}", Limits{PaddingBytes: 9}, limit.Padding},
		{"power", "{{ 2 ** 65 }}", Limits{PowerBits: 64}, limit.Power},
		{"json", "{{ [[[1]]]|tojson }}", Limits{JSONDepth: 2}, limit.JSONDepth},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tmpl, err := Compile(c.source, c.limits)
			if err == nil {
				_, err = tmpl.Render(context.Background(), nil, Env{})
			}
			var passed *LimitError
			require.ErrorAs(t, err, &passed)
			require.Equal(t, c.want, passed.Kind)
			require.Contains(t, err.Error(), string(c.want))
			tmpl, err = Compile(c.source, Limits{})
			require.NoError(t, err)
			_, err = tmpl.Render(context.Background(), nil, Env{})
			require.NoError(t, err)
		})
	}
}

// TestRenderLimits replaces the limits of one render.
func TestRenderLimits(t *testing.T) {
	t.Parallel()
	tmpl, err := Compile("{% for i in range(5000) %}{% endfor %}ok", Limits{})
	require.NoError(t, err)
	_, err = tmpl.Render(context.Background(), nil, Env{Limits: &Limits{Steps: 100}})
	require.Error(t, err)
	out, err := tmpl.Render(context.Background(), nil, Env{})
	require.NoError(t, err)
	require.Equal(t, "ok", string(out))
}

// TestDeepInput renders JSON that nests as deep as it may.
func TestDeepInput(t *testing.T) {
	t.Parallel()
	v, err := value.FromJSON([]byte(nest("[", "1", "]", 500)))
	require.NoError(t, err)
	tmpl, err := Compile("{{ x|tojson }}{{ x|string|length }}{{ x == x }}", Limits{})
	require.NoError(t, err)
	out, err := tmpl.Render(context.Background(), nil, Env{Vars: []Var{{Name: "x", Value: v}}})
	require.NoError(t, err)
	require.Equal(t, nest("[", "1", "]", 500)+"1001True", string(out))
	_, err = value.FromJSON([]byte(nest("[", "1", "]", 501)))
	var passed *LimitError
	require.ErrorAs(t, err, &passed)
	require.Equal(t, limit.JSONDepth, passed.Kind)
}
