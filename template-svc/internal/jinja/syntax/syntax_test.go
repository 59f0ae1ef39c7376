package syntax

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// shown writes tokens as kind or kind:text.
func shown(t *testing.T, source string) string {
	t.Helper()
	toks, err := tokenize(newSource(source))
	require.NoError(t, err)
	var out []string
	for _, tok := range toks {
		switch {
		case tok.kind == kEOF:
		case tok.kind == kData || tok.kind == kName || tok.kind == kString:
			out = append(out, fmt.Sprintf("%s:%q", tok.kind, tok.text))
		default:
			out = append(out, string(tok.kind))
		}
	}
	return strings.Join(out, " ")
}

func TestWhitespace(t *testing.T) {
	t.Parallel()
	const ifTag = `block_begin name:"x" block_end`
	for _, c := range []struct{ name, in, want string }{
		{"one newline after a block tag goes", "{% x %}\n\na", ifTag + ` data:"\na"`},
		{"none after a print tag", "{{ x }}\na", `variable_begin name:"x" variable_end data:"\na"`},
		{"plus keeps the newline", "{% x +%}\na", ifTag + ` data:"\na"`},
		{"blanks to the line start go", "a\n  {% x %}", `data:"a\n" ` + ifTag},
		{"at the start of the template too", "  {% x %}", ifTag},
		{"and after a consumed newline", "{% x %}\n  {% x %}", ifTag + " " + ifTag},
		{"not with text in front", "a  {% x %}", `data:"a  " ` + ifTag},
		{"not before a print tag", "  {{ x }}", `data:"  " variable_begin name:"x" variable_end`},
		{"plus keeps blanks", "  {%+ x %}", `data:"  " ` + ifTag},
		{"minus strips everything", "a \n {%- x -%} \n\u3000b", `data:"a" ` + ifTag + ` data:"b"`},
		{"minus of a print tag", "a {{- x -}} b", `data:"a" variable_begin name:"x" variable_end data:"b"`},
		{"zero width space is no whitespace", "a\u200b{%- x %}", `data:"a\u200b" ` + ifTag},
		{"sign belongs to the tag", "{{-2}}", "variable_begin integer variable_end"},
		{"comment takes its newline", "a\n  {# c #}\nb", `data:"a\n" data:"b"`},
		{"comment with signs", "a {#- c -#} b", `data:"a" data:"b"`},
		{"comments do not nest", "{# {# #}b#}", `data:"b#}"`},
		{"comment at the very end", "a{#", `data:"a"`},
		{"raw is data", "{% raw %}\n{{ x }}{% y %}{% endraw %}\nz", `data:"\n{{ x }}{% y %}" data:"z"`},
		{"raw with signs", "a {%- raw -%} b {%- endraw -%} c", `data:"a" data:"b" data:"c"`},
		{"blanks before endraw", "{% raw %}a\n  {% endraw %}b", `data:"a\n" data:"b"`},
		{"carriage returns", "a\r\nb\rc", `data:"a\nb\nc"`},
		{"one trailing newline goes", "a\n\n", `data:"a\n"`},
		{
			"closing signs count when brackets balance", "{{ {1: {}} }}",
			"variable_begin lbrace integer colon lbrace rbrace rbrace variable_end",
		},
		{"strings hold closing signs and newlines", "{{ '}}\n' }}", `variable_begin string:"}}\n" variable_end`},
		{"an item after a dot is no float", "{{ x.0.1 }}", `variable_begin name:"x" dot integer dot integer variable_end`},
		{
			"operators", "{% //**==!=>=<=<>=.:|,; %}",
			"block_begin floordiv pow eq ne gteq lteq lt gteq dot colon pipe comma semicolon block_end",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, shown(t, c.in))
		})
	}
}

func TestStringEscapes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{`'\n\t\r\b\f\v\a'`, "\n\t\r\b\f\v\a"},
		{`'\\\'\"'`, `\'"`},
		{`'\x41\u00e9\U0001F600'`, "Aé😀"},
		{`'\101\0'`, "A\x00"},
		{`'\q\z'`, `\q\z`},
		{"'a\\\nb'", "ab"},
		{`"it's"`, "it's"},
		{`'\é'`, `\xe9`},
		{`'\日'`, `\u65e5`},
		{`'\😀'`, `\U0001f600`},
		{`'\ud800'`, "\U0010d800"},
	} {
		toks, err := tokenize(newSource("{{ " + c.in + " }}"))
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, toks[1].text, c.in)
	}
}

// prefix writes an expression in prefix form.
func prefix(e Node) string {
	list := func(es ...Expr) string {
		var parts []string
		for _, e := range es {
			parts = append(parts, prefix(e))
		}
		return strings.Join(parts, " ")
	}
	switch n := e.(type) {
	case nil:
		return "_"
	case *Const:
		return strings.TrimSpace(fmt.Sprint(constText(n.Value)))
	case *Name:
		return n.Name
	case *Binary:
		return "(" + n.Op + " " + list(n.Left, n.Right) + ")"
	case *Unary:
		return "(" + n.Op + " " + list(n.Node) + ")"
	case *Compare:
		s := "(cmp " + prefix(n.Expr)
		for _, o := range n.Ops {
			s += " " + o.Op + " " + prefix(o.Expr)
		}
		return s + ")"
	case *Concat:
		return "(~ " + list(n.Nodes...) + ")"
	case *Cond:
		if n.Else == nil {
			return "(if " + list(n.Test, n.Then) + ")"
		}
		return "(if " + list(n.Test, n.Then, n.Else) + ")"
	case *Filter:
		return "(|" + n.Name + " " + list(append([]Expr{n.Node}, n.Args.Pos...)...) + ")"
	case *Test:
		return "(is " + n.Name + " " + list(append([]Expr{n.Node}, n.Args.Pos...)...) + ")"
	case *Getattr:
		return "(." + n.Attr + " " + prefix(n.Node) + ")"
	case *Getitem:
		return "([] " + list(n.Node, n.Arg) + ")"
	case *Call:
		return "(call " + list(append([]Expr{n.Func}, n.Args.Pos...)...) + ")"
	case *Tuple:
		return "(tuple " + list(n.Items...) + ")"
	case *List:
		return "(list " + list(n.Items...) + ")"
	case *Slice:
		return "(slice)"
	}
	return fmt.Sprintf("%T", e)
}

func constText(v value.Value) string {
	if v.IsStr() {
		return v.AsStr()
	}
	m := limit.NewMeter(nil, limit.Default()) //nolint:staticcheck // a meter without a context never polls one
	s, err := value.ReprOf(&m, v)
	if err != nil {
		return err.Error()
	}
	return s
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"a or b and not c", "(or a (and b (not c)))"},
		{"not a in b", "(not (cmp a in b))"},
		{"a not in b", "(cmp a notin b)"},
		{"a < b <= c != d", "(cmp a lt b lteq c ne d)"},
		{"1 + 2 ~ 3", "(+ 1 (~ 2 3))"},
		{"a - b - c", "(- (- a b) c)"},
		{"a + b * c // d % e", "(+ a (% (// (* b c) d) e))"},
		{"2 ** 3 ** 2", "(** (** 2 3) 2)"},
		{"-2 ** 2", "(** (- 2) 2)"},
		{"-1|abs", "(|abs (- 1))"},
		{"-a.b", "(- (.b a))"},
		{"a.b[0](1)|f(2)", "(|f (call ([] (.b a) 0) 1) 2)"},
		{"a is b", "(is b a)"},
		{"a is not b", "(not (is b a))"},
		{"a is divisibleby 3 and b", "(and (is divisibleby a 3) b)"},
		{"a is in [1]", "(is in a (list 1))"},
		{"a if b", "(if b a)"},
		{"a if b else c if d else e", "(if b a (if d c e))"},
		{"a if b if c", "(if c (if b a))"},
		{"a, b", "(tuple a b)"},
		{"(a,)", "(tuple a)"},
		{"()", "(tuple )"},
		{"(a)", "a"},
		{"a[1:2]", "([] a (slice))"},
		{"a[1, 2]", "([] a (tuple 1 2))"},
		{"a.0", "([] a 0)"},
		{"a is b.c", "(is b.c a)"},
		{"a|b.c", "(|b.c a)"},
		{"'a' 'b'", "ab"},
		{"a ~ b ~ c", "(~ a b c)"},
		{"True or none", "(or True None)"},
		{"TRUE", "TRUE"},
	} {
		tree, err := Parse("{{ "+c.in+" }}", limit.Limits{})
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, prefix(tree.Body[0].(*Output).Nodes[0]), c.in)
	}
}

func TestSyntaxErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"{% if a %}", "Unexpected end of template. Jinja was looking for the following tags: 'elif' or 'else' or 'endif'. " +
			"The innermost block that needs to be closed is 'if'."},
		{"{% nope %}", "Encountered unknown tag 'nope'."},
		{"{% for a in b %}{% endif %}", "Encountered unknown tag 'endif'. Jinja was looking for the following tags: 'endfor' or 'else'. " +
			"The innermost block that needs to be closed is 'for'."},
		{"{% if a %}{% for b in c %}{% endif %}", "Encountered unknown tag 'endif'. You probably made a nesting mistake. " +
			"Jinja is expecting this tag, but currently looking for 'endfor' or 'else'. The innermost block that needs to be closed is 'for'."},
		{"{{ a b }}", "expected token 'end of print statement', got 'b'"},
		{"{{ a", "unexpected end of template, expected 'end of print statement'."},
		{"{{ }}", "Expected an expression, got 'end of print statement'"},
		{"{{ (1] }}", "unexpected ']', expected ')'"},
		{"{{ 1) }}", "unexpected ')'"},
		{"{{ a ! b }}", "unexpected char '!' at 5"},
		{"{# a", "Missing end of comment tag"},
		{"{% raw %}a", "Missing end of raw directive"},
		{"{% set 1 = 2 %}", "can't assign to 'const'"},
		{"{% set a.b.c = 1 %}", "expected token 'end of statement block', got '.'"},
		{"{% for true in a %}{% endfor %}", "can't assign to 'const'"},
		{"{% macro m(a=1, b) %}{% endmacro %}", "non-default argument follows default argument"},
		{"{{ f(a=1, b) }}", "invalid syntax for function call expression"},
		{"{{ a is b is c }}", "You cannot chain multiple tests with is"},
		{"{% call a %}{% endcall %}", "expected call"},
		{"{{ '\\xZ' }}", `truncated \xXX escape`},
	} {
		_, err := Parse(c.in, limit.Limits{})
		var e *pyerr.Error
		require.ErrorAs(t, err, &e, c.in)
		require.Equal(t, pyerr.Syntax, e.Type, c.in)
		require.Empty(t, cmp.Diff(c.want, e.Message), c.in)
		require.Positive(t, e.Line)
	}
}

func TestParseLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		limits   limit.Limits
		kind     limit.Kind
	}{
		{"source", "0123456789", limit.Limits{SourceBytes: 9}, limit.Source},
		{"nesting", strings.Repeat("(", 60), limit.Limits{Depth: 50}, limit.Depth},
		{"chain", "{{ a" + strings.Repeat(".b", 60) + " }}", limit.Limits{Depth: 50}, limit.Depth},
		{"chains in brackets", "{{ " + strings.Repeat("(", 20) + "a" + strings.Repeat(".b.b.b.b.b.b.b.b)", 20) + " }}", limit.Limits{Depth: 50}, limit.Depth},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.name == "nesting" {
				c.in = "{{ " + c.in
			}
			_, err := Parse(c.in, c.limits)
			var passed *limit.Error
			require.ErrorAs(t, err, &passed)
			require.Equal(t, c.kind, passed.Kind)
		})
	}
}
