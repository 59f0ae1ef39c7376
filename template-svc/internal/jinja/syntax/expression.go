package syntax

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// tupleOf says how a tuple's members are read and where it may end.
type tupleOf struct {
	primary   bool   // members are primaries, as in targets
	condexpr  bool   // members may be inline-ifs
	explicit  bool   // brackets stand around it, so it may be empty
	namespace bool   // ns.attr is a target
	extraEnd  string // a name that ends it, "" for none
}

// tuple reads one expression, or several parted by commas as a tuple.
func (p *parser) tuple(how tupleOf) Expr {
	pos := p.here()
	var items []Expr
	isTuple := false
	for p.err == nil {
		if len(items) > 0 {
			p.expect("comma")
		}
		if p.tupleEnd(how.extraEnd) {
			break
		}
		switch {
		case how.primary:
			items = append(items, p.primary(how.namespace))
		case how.condexpr || how.explicit:
			items = append(items, p.expression())
		default:
			items = append(items, p.nested(p.parseOr))
		}
		if !p.is("comma") {
			break
		}
		isTuple = true
		pos = p.here()
	}
	if !isTuple {
		if len(items) > 0 {
			return items[0]
		}
		if !how.explicit {
			p.fail(p.cur().off, "Expected an expression, got %s", value.ReprString(p.cur().describe()))
		}
	}
	return &Tuple{Pos: pos, Items: items}
}

// tupleEnd reports whether a tuple without brackets ends here.
func (p *parser) tupleEnd(extra string) bool {
	switch p.cur().kind {
	case kVariableEnd, kBlockEnd, "rparen":
		return true
	}
	return extra != "" && p.isName(extra)
}

// nested runs parse one level deeper.
func (p *parser) nested(parse func() Expr) Expr {
	if !p.enter() {
		p.leave()
		return &Const{}
	}
	e := parse()
	p.leave()
	return e
}

// expression reads an expression of the loosest level, one level deeper.
func (p *parser) expression() Expr { return p.nested(p.condexpr) }

// condexpr reads: or-expression { "if" or-expression [ "else" expression ]
// }.
func (p *parser) condexpr() Expr {
	pos := p.here()
	e := p.parseOr()
	for n := 0; p.skipName("if") && p.chain(n); n++ {
		c := &Cond{Pos: pos, Then: e, Test: p.parseOr()}
		if p.skipName("else") {
			c.Else = p.expression()
		}
		e = c
		pos = p.here()
	}
	return e
}

// parseOr reads: and-expression { "or" and-expression }.
func (p *parser) parseOr() Expr {
	pos := p.here()
	left := p.parseAnd()
	for n := 0; p.skipName("or") && p.chain(n); n++ {
		left = &Binary{Pos: pos, Op: "or", Left: left, Right: p.parseAnd()}
		pos = p.here()
	}
	return left
}

// parseAnd reads: not-expression { "and" not-expression }.
func (p *parser) parseAnd() Expr {
	pos := p.here()
	left := p.parseNot()
	for n := 0; p.skipName("and") && p.chain(n); n++ {
		left = &Binary{Pos: pos, Op: "and", Left: left, Right: p.parseNot()}
		pos = p.here()
	}
	return left
}

// parseNot reads: "not" not-expression, or a comparison; so "not a in b" is
// "not (a in b)".
func (p *parser) parseNot() Expr {
	if !p.isName("not") {
		return p.compare()
	}
	pos := p.pos(p.next())
	return &Unary{Pos: pos, Op: "not", Node: p.nested(p.parseNot)}
}

// compare reads: sum { ( == != < <= > >= | "in" | "not" "in" ) sum }, a
// single chain.
func (p *parser) compare() Expr {
	pos := p.here()
	e := p.sum()
	var ops []Operand
	for p.err == nil {
		op := ""
		switch t := p.cur(); {
		case t.kind == "eq" || t.kind == "ne" || t.kind == "lt" || t.kind == "lteq" || t.kind == "gt" || t.kind == "gteq":
			op = string(t.kind)
		case p.isName("in"):
			op = "in"
		case p.isName("not") && p.look().kind == kName && p.look().text == "in":
			op = "notin"
			p.next()
		}
		if op == "" {
			break
		}
		p.next()
		ops = append(ops, Operand{Op: op, Expr: p.sum()})
	}
	if len(ops) == 0 {
		return e
	}
	return &Compare{Pos: pos, Expr: e, Ops: ops}
}

// binary reads a left-associative level whose operators are given by sign.
func (p *parser) binary(sign func(kind) string, operand func() Expr) Expr {
	pos := p.here()
	left := operand()
	for n := 0; p.chain(n); n++ {
		op := sign(p.cur().kind)
		if op == "" {
			break
		}
		p.next()
		left = &Binary{Pos: pos, Op: op, Left: left, Right: operand()}
		pos = p.here()
	}
	return left
}

// sum reads: concat { ( + | - ) concat }. It is looser than ~.
func (p *parser) sum() Expr {
	return p.binary(func(k kind) string {
		switch k {
		case "add":
			return "+"
		case "sub":
			return "-"
		}
		return ""
	}, p.concat)
}

// concat reads: product { ~ product }, a flat list.
func (p *parser) concat() Expr {
	pos := p.here()
	e := p.product()
	if !p.is("tilde") {
		return e
	}
	c := &Concat{Pos: pos, Nodes: []Expr{e}}
	for p.skip("tilde") {
		c.Nodes = append(c.Nodes, p.product())
	}
	return c
}

// product reads: power { ( * | / | // | % ) power }.
func (p *parser) product() Expr {
	return p.binary(func(k kind) string {
		switch k {
		case "mul":
			return "*"
		case "div":
			return "/"
		case "floordiv":
			return "//"
		case "mod":
			return "%"
		}
		return ""
	}, p.power)
}

// power reads: unary { ** unary }, from left to right unlike Python.
func (p *parser) power() Expr {
	return p.binary(func(k kind) string {
		if k == "pow" {
			return "**"
		}
		return ""
	}, func() Expr { return p.unary(true) })
}

// unary reads a sign or a primary with what follows it. A filter applies to
// the signed operand: -1|abs is 1.
func (p *parser) unary(withFilter bool) Expr {
	var e Expr
	switch t := p.cur(); t.kind {
	case "sub", "add":
		p.next()
		op := "-"
		if t.kind == "add" {
			op = "+"
		}
		e = &Unary{Pos: p.pos(t), Op: op, Node: p.nested(func() Expr { return p.unary(false) })}
	default:
		e = p.primary(false)
	}
	e = p.postfix(e)
	if withFilter {
		e = p.filterExpr(e)
	}
	return e
}

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
