package syntax

import (
	"errors"
	"testing"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// seeds are sources that reach every state of the lexer and every tag.
var seeds = []string{
	"a {{ b }} {% if c %}d{% endif %} {# e #}", "{%- raw -%} {{ x }} {%+ endraw +%}\n", "{{ 'a\\n' ~ \"b\" ~ 1.5e3 ~ 0x1f }}",
	"{% for a, b in c if d recursive %}{{ loop(a) }}{% else %}{% endfor %}", "{% macro m(a, b=1) %}{{ caller() }}{% endmacro %}",
	"{% call(x) m(*a, **b) %}{% endcall %}", "{% set a.b, c = 1, 2 %}{% set d | upper %}x{% endset %}", "{% filter a|b(1) %}{% endfilter %}",
	"{% with a=1 %}{% endwith %}{% block x scoped %}{% endblock x %}", "{% autoescape true %}{% endautoescape %}{% print 1, 2 %}",
	"{% include 'a' ignore missing %}{% from 'a' import b as c %}{% import 'a' as d %}{% extends 'e' %}",
	"{{ {1: [2, (3,)], 'a': not b is not c(1)}[::-1].x|f(y=1) if a < b <= c not in d else -e ** +f // g % h }}",
	"{% generation %}{% break %}{% continue %}{% endgeneration %}", "\r\n\t {%- set x = 1 -%} \u2028 {{- x -}}\r", "{{ é }}{{ '\\u00e9' }}", "{#-", "{%", "{{",
}

// FuzzLexer checks that tokens cover the source in order and that every error
// has a place.
func FuzzLexer(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		src := newSource(text)
		toks, err := tokenize(src)
		if err != nil {
			requirePlace(t, err)
			return
		}
		src.place(toks)
		last := 0
		for _, tok := range toks {
			if tok.off < last || tok.off > len(src.text) {
				t.Fatalf("token %v at %d after %d", tok.kind, tok.off, last)
			}
			last = tok.off
			if want := src.pos(tok.off); tok.pos != want {
				t.Fatalf("token %v at %v, want %v", tok.kind, tok.pos, want)
			}
		}
		if toks[len(toks)-1].kind != kEOF {
			t.Fatal("no eof token")
		}
	})
}

func requirePlace(t *testing.T, err error) {
	t.Helper()
	var e *pyerr.Error
	var passed *limit.Error
	switch {
	case errors.As(err, &e):
		if e.Line < 1 && e.Type != pyerr.Value {
			t.Fatalf("no place: %v", err)
		}
	case !errors.As(err, &passed):
		t.Fatalf("foreign error %v", err)
	}
}

// FuzzParser checks that parsing ends, that trees stay within the depth limit
// and that the questions asked of a tree have answers.
func FuzzParser(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := Parse(text, limit.Limits{Depth: 50})
		if err != nil {
			requirePlace(t, err)
			return
		}
		nodes := 0
		Walk(tree, func(n Node) bool {
			if nodes++; n.At().Line < 1 {
				t.Fatalf("%T without a place", n)
			}
			return true
		})
		if h := height(tree); h > 100 {
			t.Fatalf("height %d", h)
		}
		if f := ContentFormat(tree); f != FormatString && f != FormatOpenAI {
			t.Fatalf("format %q", f)
		}
	})
}
