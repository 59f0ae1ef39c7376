package syntax

// Subscripts and calls bind tighter than signs, filters and tests looser.

// postfix reads subscripts and calls after an operand.
func (p *parser) postfix(e Expr) Expr {
	for n := 0; p.chain(n); n++ {
		switch p.cur().kind {
		case "dot", "lbracket":
			e = p.subscript(e)
		case "lparen":
			e = p.call(e)
		default:
			return e
		}
	}
	return e
}

// filterExpr reads filters, tests and calls after an operand.
func (p *parser) filterExpr(e Expr) Expr {
	for n := 0; p.chain(n); n++ {
		switch t := p.cur(); {
		case t.kind == "pipe":
			e = p.filters(e, false)
		case p.isName("is"):
			e = p.test(e)
		case t.kind == "lparen":
			e = p.call(e)
		default:
			return e
		}
	}
	return e
}

// subscript reads .name, .0 or [...]; several members in brackets make a
// tuple.
func (p *parser) subscript(e Expr) Expr {
	t := p.next()
	pos := p.pos(t)
	if t.kind == "dot" {
		attr := p.next()
		switch attr.kind {
		case kName:
			return &Getattr{Pos: pos, Node: e, Attr: attr.text}
		case kInteger:
			return &Getitem{Pos: pos, Node: e, Arg: &Const{Pos: p.pos(attr), Value: attr.num}}
		}
		p.fail(attr.off, "expected name or number")
		return e
	}
	var args []Expr
	for p.open("rbracket") {
		if len(args) > 0 {
			p.expect("comma")
		}
		args = append(args, p.nested(p.subscribed))
	}
	p.expect("rbracket")
	if len(args) == 1 {
		return &Getitem{Pos: pos, Node: e, Arg: args[0]}
	}
	return &Getitem{Pos: pos, Node: e, Arg: &Tuple{Pos: pos, Items: args}}
}

// subscribed reads an expression or a slice in brackets.
func (p *parser) subscribed() Expr {
	s := &Slice{Pos: p.here()}
	if !p.is("colon") {
		e := p.expression()
		if !p.is("colon") {
			return e
		}
		s.Start = e
	}
	p.next()
	part := func() Expr {
		if p.is("rbracket") || p.is("comma") {
			return nil
		}
		return p.expression()
	}
	if !p.is("colon") {
		s.Stop = part()
	}
	if p.skip("colon") {
		s.Step = part()
	}
	return s
}

// args reads a call's arguments: positional ones, keywords, *x, **x, in
// that order.
func (p *parser) args() Args {
	open := p.expect("lparen")
	var a Args
	ensure := func(ok bool) {
		if !ok {
			p.fail(open.off, "invalid syntax for function call expression")
		}
	}
	for first := true; p.open("rparen"); first = false {
		if !first {
			p.expect("comma")
			if p.is("rparen") {
				break
			}
		}
		switch t := p.cur(); {
		case t.kind == "mul":
			ensure(a.Star == nil && a.StarStar == nil)
			p.next()
			a.Star = p.expression()
		case t.kind == "pow":
			ensure(a.StarStar == nil)
			p.next()
			a.StarStar = p.expression()
		case t.kind == kName && p.look().kind == "assign":
			ensure(a.StarStar == nil)
			p.next()
			p.next()
			a.Kw = append(a.Kw, Keyword{Key: t.text, Value: p.expression()})
		default:
			ensure(a.Star == nil && a.StarStar == nil && len(a.Kw) == 0)
			a.Pos = append(a.Pos, p.expression())
		}
	}
	p.expect("rparen")
	return a
}

// call reads a call of e.
func (p *parser) call(e Expr) Expr {
	pos := p.here()
	return &Call{Pos: pos, Func: e, Args: p.args()}
}

// dotted reads a filter's or test's name, which may hold dots.
func (p *parser) dotted() (*token, string) {
	t := p.expect(kName)
	name := t.text
	for p.skip("dot") {
		name += "." + p.expect(kName).text
	}
	return t, name
}

// filters reads a run of filters; inline means that the first one stands
// without "|". The result is e itself if there are none.
func (p *parser) filters(e Expr, inline bool) Expr {
	for n := 0; (p.is("pipe") || inline) && p.chain(n); n++ {
		if !inline {
			p.next()
		}
		inline = false
		t, name := p.dotted()
		f := &Filter{Pos: p.pos(t), Node: e, Name: name}
		if p.is("lparen") {
			f.Args = p.args()
		}
		e = f
	}
	return e
}

// test reads "is [not] name [argument]". A single argument needs no
// brackets, and "and", "or" and "else" never start one.
func (p *parser) test(e Expr) Expr {
	pos := p.pos(p.next())
	negated := p.skipName("not")
	_, name := p.dotted()
	n := &Test{Pos: pos, Node: e, Name: name}
	switch t := p.cur(); t.kind {
	case "lparen":
		n.Args = p.args()
	case kName, kString, kInteger, kFloat, "lbracket", "lbrace":
		if p.isName("else") || p.isName("or") || p.isName("and") {
			break
		}
		if p.isName("is") {
			p.fail(t.off, "You cannot chain multiple tests with is")
		}
		n.Args.Pos = []Expr{p.postfix(p.primary(false))}
	}
	if negated {
		return &Unary{Pos: pos, Op: "not", Node: n}
	}
	return n
}
