package syntax

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Commas make tuples almost anywhere, so most expressions of statements are
// read as tuples.

// tupleOf says how a tuple's members are read and where it may end.
type tupleOf struct {
	primary   bool // members are primaries, as in targets
	condexpr  bool // members may be inline-ifs
	explicit  bool // brackets stand around it, so it may be empty
	namespace bool // ns.attr is a target
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
		if p.tupleEnd() {
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

// tupleEnd reports whether a tuple without brackets ends here. Jinja2 means to end it at "in" and "recursive" too, but
// never does.
func (p *parser) tupleEnd() bool {
	switch p.cur().kind {
	case kVariableEnd, kBlockEnd, "rparen":
		return true
	}
	return false
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
