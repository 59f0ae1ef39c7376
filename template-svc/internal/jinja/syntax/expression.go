package syntax

// One function per level of the grammar, loosest first. All binary levels
// are left-associative. Chains are loops, nesting is recursion, and both
// are counted.

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
