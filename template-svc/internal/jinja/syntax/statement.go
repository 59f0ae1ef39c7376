package syntax

// One function per tag. A tag's body ends at one of the tags it names,
// wherever else that tag may be known.

// parseFor reads: for target in tuple [ if expression ] [ recursive ] ... [
// else ... ] endfor.
func (p *parser) parseFor() Node {
	n := &For{Pos: p.pos(p.next())}
	n.Target = p.target(tupleOf{})
	p.expectName("in")
	n.Iter = p.tuple(tupleOf{})
	if p.skipName("if") {
		n.Test = p.expression()
	}
	n.Recursive = p.skipName("recursive")
	var end string
	n.Body, end = p.statements("endfor", "else")
	if end != "endfor" && p.err == nil {
		n.Else, _ = p.statements("endfor")
	}
	return n
}

// parseIf reads an if with its elifs and else.
func (p *parser) parseIf() Node {
	root := &If{Pos: p.pos(p.next())}
	node := root
	for {
		node.Test = p.tuple(tupleOf{})
		var end string
		node.Body, end = p.statements("elif", "else", "endif")
		if p.err != nil {
			return root
		}
		switch end {
		case "elif":
			node = &If{Pos: p.here()}
			root.Elif = append(root.Elif, node)
			continue
		case "else":
			root.Else, _ = p.statements("endif")
		}
		return root
	}
}

// parseSet reads: set target = tuple, or set target | filters ... endset.
func (p *parser) parseSet() Node {
	pos := p.pos(p.next())
	target := p.target(tupleOf{namespace: true})
	if p.skip("assign") {
		return &Set{Pos: pos, Target: target, Value: p.tuple(tupleOf{condexpr: true})}
	}
	n := &SetBlock{Pos: pos, Target: target}
	n.Filter, _ = p.filters(nil, false).(*Filter)
	n.Body, _ = p.statements("endset")
	return n
}

// parseWith reads: with name = expression, ... endwith.
func (p *parser) parseWith() Node {
	n := &With{Pos: p.pos(p.next())}
	for p.open(kBlockEnd) {
		if len(n.Targets) > 0 {
			p.expect("comma")
		}
		target := p.target(tupleOf{})
		setAccess(target, Param)
		n.Targets = append(n.Targets, target)
		p.expect("assign")
		n.Values = append(n.Values, p.expression())
	}
	n.Body, _ = p.statements("endwith")
	return n
}

// parsePrint reads: print expression, ...
func (p *parser) parsePrint() Node {
	n := &Output{Pos: p.pos(p.next())}
	for p.open(kBlockEnd) {
		if len(n.Nodes) > 0 {
			p.expect("comma")
		}
		n.Nodes = append(n.Nodes, p.expression())
	}
	return n
}
