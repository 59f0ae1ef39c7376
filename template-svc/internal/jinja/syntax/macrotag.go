package syntax

// Parameters with defaults come last; defaults are expressions of the
// macro's own frame.

// signature reads the parameters of a macro or call block.
func (p *parser) signature() Signature {
	var s Signature
	p.expect("lparen")
	for p.open("rparen") {
		if len(s.Params) > 0 {
			p.expect("comma")
		}
		param := p.nameTarget(Param)
		if p.skip("assign") {
			s.Defaults = append(s.Defaults, p.expression())
		} else if len(s.Defaults) > 0 {
			p.fail(p.cur().off, "non-default argument follows default argument")
		}
		s.Params = append(s.Params, param)
	}
	p.expect("rparen")
	return s
}

// parseMacro reads: macro name(parameters) ... endmacro.
func (p *parser) parseMacro() Node {
	n := &Macro{Pos: p.pos(p.next())}
	n.Name = p.nameTarget(Store).Name
	n.Signature = p.signature()
	n.Body, _ = p.statements("endmacro")
	return n
}

// parseCallBlock reads: call [ (parameters) ] call ... endcall.
func (p *parser) parseCallBlock() Node {
	t := p.next()
	n := &CallBlock{Pos: p.pos(t)}
	if p.is("lparen") {
		n.Signature = p.signature()
	}
	call, ok := p.expression().(*Call)
	if !ok {
		p.fail(t.off, "expected call")
		return nil
	}
	n.Call = call
	n.Body, _ = p.statements("endcall")
	return n
}

// parseFilterBlock reads: filter name | name ... endfilter.
func (p *parser) parseFilterBlock() Node {
	n := &FilterBlock{Pos: p.pos(p.next())}
	n.Filter, _ = p.filters(nil, true).(*Filter)
	n.Body, _ = p.statements("endfilter")
	return n
}
