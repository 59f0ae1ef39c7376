package jinja

import (
	"context"
	"errors"
	"testing"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// fuzzLimits keep one execution of a fuzz target in the range of milliseconds.
func fuzzLimits() Limits {
	return Limits{SourceBytes: 1 << 14, Steps: 20_000, MadeBytes: 1 << 20, PaddingBytes: 1 << 12, PowerBits: 1 << 12}
}

// FuzzRender renders arbitrary templates twice: never a fault of the engine, the
// same result each time, and nothing appended after an error.
func FuzzRender(f *testing.F) {
	for _, s := range []string{
		"{{ a|tojson(indent=2) }}{% for k, v in a.items() %}{{ k }}{{ loop.last }}{% endfor %}",
		"{% macro m(x, y=x) %}{{ varargs }}{{ kwargs }}{{ x ~ y }}{% endmacro %}{{ m(1, 2, 3, z=4) }}",
		"{% set ns = namespace(n=0) %}{% for i in b if i %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
		"{{ '%5.2f|%-8s|%x' % (1.5, 'a', 255) }}{{ '{:>8,}{!r}'.format(1234567, 'x') }}", "{{ s[::-1].upper().split('L')|join('-')|title }}",
		"{{ b|map('string')|batch(2)|list }}{{ b|sort(reverse=true)|unique|list }}{{ b|groupby(0) }}", "{{ 2 ** 70 // 3 % 7 / 2 }}",
		"{% for x in b recursive %}{{ loop.depth }}{{ loop([1]) if loop.first and loop.depth < 3 }}{% endfor %}",
		"{% autoescape true %}{{ '<' ~ '>'|safe }}{% endautoescape %}{{ s|e|indent|wordwrap(3)|pprint }}", "{{ u.x }}", "{{ u|default(s)|urlize|xmlattr }}",
		"{% call(a) m() %}{{ a }}{% endcall %}{% block q %}{{ self.q }}{% endblock %}", "{{ raise_exception(s) }}{{ strftime_now('%d %b %Y') }}",
		"{% set a, b = b %}{% filter upper %}{% set x %}{{ a }}{% endset %}{{ x }}{% endfilter %}{{ cycler(1, 2).next() }}{{ range(3)[1:] }}",
		"{{ s.encode('utf-16', 'replace')[1:].decode('utf-8', 'backslashreplace') }}{{ s.encode().hex('-', 2) }}{{ '%s|%d'.encode() % (s.encode(), n) }}",
		"{{ (n).to_bytes(4, 'little', signed=true).split('a'.encode(), 1) }}{{ (1).from_bytes(b) }}{{ 1.0.fromhex('0x1.8p3') }}{{ s.encode().title().find(87) }}",
		"{{ f(a=1, a=2) }}", "{% macro m(a, a) %}{% endmacro %}", "{% include [] ignore missing %}{% include n %}", "{% for a, in b %}{% endfor %}",
	} {
		f.Add(s)
	}
	vars := []Var{
		{Name: "s", Value: value.Str("Hello wörld")},
		{Name: "n", Value: value.Int(7)},
		{Name: "b", Value: value.List([]value.Value{value.Int(3), value.Int(1), value.Float(2.5)})},
	}
	d := value.NewDict(2)
	d.SetStr("x", value.None)
	d.SetStr("y", value.List(nil))
	vars = append(vars, Var{Name: "a", Value: value.OfDict(d)})
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Compile(source, fuzzLimits())
		if err != nil {
			return
		}
		tmpl.Undeclared()
		prefix := []byte("prefix")
		one, errOne := tmpl.Render(context.Background(), prefix, Env{Vars: vars, Now: pinnedNow})
		two, errTwo := tmpl.Render(context.Background(), prefix, Env{Vars: vars, Now: pinnedNow})
		if string(one) != string(two) || (errOne == nil) != (errTwo == nil) {
			t.Fatalf("%q then %q (%v, %v)", one, two, errOne, errTwo)
		}
		checkFuzzError(t, string(one), errOne)
	})
}

func checkFuzzError(t *testing.T, out string, err error) {
	if err == nil {
		return
	}
	if out != "prefix" {
		t.Fatalf("text %q after %v", out, err)
	}
	var e *Error
	var passed *LimitError
	switch {
	case errors.As(err, &e):
		if e.Type == "SystemError" {
			t.Fatal(err)
		}
		if e.Line == 0 {
			t.Fatalf("no place: %v", err)
		}
	case !errors.As(err, &passed) || passed.Kind == limit.Time:
		t.Fatal(err)
	}
}

// FuzzJSON checks that what tojson writes reads back equal.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"a": [1, -0.0, 1e16, 12345678901234567890, "\ud83d\ude00\u00e9\n"], "a": null, "b": {}}`, `[NaN, Infinity, -Infinity, true]`, `"\ud800"`, `1e400`,
	} {
		f.Add([]byte(s))
	}
	tmpl, err := Compile("{{ x|tojson }}", Limits{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := value.FromJSON(data)
		if err != nil {
			return
		}
		one, err := tmpl.Render(context.Background(), nil, Env{Vars: []Var{{Name: "x", Value: v}}})
		if err != nil {
			var passed *LimitError
			var e *Error
			if !errors.As(err, &passed) && !errors.As(err, &e) {
				t.Fatal(err)
			}
			return
		}
		again, err := value.FromJSON(one)
		if err != nil {
			t.Fatalf("%s: %v", one, err)
		}
		two, err := tmpl.Render(context.Background(), nil, Env{Vars: []Var{{Name: "x", Value: again}}})
		if err != nil || string(one) != string(two) {
			t.Fatalf("%s then %s (%v)", one, two, err)
		}
	})
}
