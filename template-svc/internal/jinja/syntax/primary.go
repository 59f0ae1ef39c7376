package syntax

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Adjacent string literals join. Only the two spellings of each constant
// are constants.

// primary reads a name, literal or bracketed expression.
func (p *parser) primary(namespace bool) Expr {
	t := p.cur()
	pos := p.pos(t)
	switch t.kind {
	case kName:
		p.next()
		return p.nameExpr(t, namespace)
	case kString:
		var b strings.Builder
		for p.is(kString) {
			b.WriteString(p.next().text)
		}
		return &Const{Pos: pos, Value: value.Str(b.String())}
	case kInteger, kFloat:
		p.next()
		return &Const{Pos: pos, Value: t.num}
	case "lparen":
		p.next()
		e := p.nested(func() Expr { return p.tuple(tupleOf{explicit: true}) })
		p.expect("rparen")
		return e
	case "lbracket":
		return p.nested(p.list)
	case "lbrace":
		return p.nested(p.dict)
	}
	p.fail(t.off, "unexpected %s", value.ReprString(t.describe()))
	return &Const{Pos: pos}
}

// nameExpr makes a node of a name token: a constant, a variable, or ns.attr
// where targets may have it.
func (p *parser) nameExpr(t *token, namespace bool) Expr {
	pos := p.pos(t)
	switch t.text {
	case "true", "True":
		return &Const{Pos: pos, Value: value.True}
	case "false", "False":
		return &Const{Pos: pos, Value: value.False}
	case "none", "None":
		return &Const{Pos: pos, Value: value.None}
	}
	if namespace && p.skip("dot") {
		return &NSRef{Pos: pos, Name: t.text, Attr: p.expect(kName).text}
	}
	return &Name{Pos: pos, Name: t.text}
}

// list reads a list literal; a trailing comma is allowed.
func (p *parser) list() Expr {
	n := &List{Pos: p.pos(p.next())}
	for p.open("rbracket") {
		if len(n.Items) > 0 {
			p.expect("comma")
		}
		if p.is("rbracket") {
			break
		}
		n.Items = append(n.Items, p.expression())
	}
	p.expect("rbracket")
	return n
}

// dict reads a dict literal; keys are any expressions.
func (p *parser) dict() Expr {
	n := &Dict{Pos: p.pos(p.next())}
	for p.open("rbrace") {
		if len(n.Keys) > 0 {
			p.expect("comma")
		}
		if p.is("rbrace") {
			break
		}
		key := p.expression()
		p.expect("colon")
		n.Keys = append(n.Keys, key)
		n.Values = append(n.Values, p.expression())
	}
	p.expect("rbrace")
	return n
}
