package syntax

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// The token stream: where the parser is, what it may expect there, and how
// it fails.

// cur is the current token.
func (p *parser) cur() *token { return &p.toks[p.at] }

// next moves on and gives the token moved over.
func (p *parser) next() *token {
	t := &p.toks[p.at]
	if t.kind != kEOF {
		p.at++
		p.reach(p.at)
	}
	return t
}

// reach stops at the lexer's fault when token i is in its place.
func (p *parser) reach(i int) {
	if p.fault != nil && i == len(p.toks)-1 {
		p.stop(p.fault)
	}
}

// look is the token after the current one.
func (p *parser) look() *token {
	if p.cur().kind == kEOF {
		return p.cur()
	}
	p.reach(p.at + 1)
	return &p.toks[min(p.at+1, len(p.toks)-1)]
}

// pos is the place of a token.
func (p *parser) pos(t *token) Pos { return t.pos }

// here is the place of the current token.
func (p *parser) here() Pos { return p.pos(p.cur()) }

// is tests the kind of the current token.
func (p *parser) is(k kind) bool { return p.cur().kind == k }

// isName tests for a keyword, which is a name like any other.
func (p *parser) isName(name string) bool { return p.cur().kind == kName && p.cur().text == name }

// skip moves over a token of a kind if it is there.
func (p *parser) skip(k kind) bool {
	if p.is(k) {
		p.next()
		return true
	}
	return false
}

// skipName moves over a keyword if it is there.
func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.next()
		return true
	}
	return false
}

// open reports whether a list that ends with end goes on.
func (p *parser) open(end kind) bool { return p.err == nil && !p.is(end) }

// failAs records an error of a Python type at a byte offset.
func (p *parser) failAs(typ string, off int, format string, a ...any) {
	if p.err == nil {
		err := p.src.fail(off, format, a...)
		err.(*pyerr.Error).Type = typ
		p.stop(err)
	}
}

// fail records a TemplateSyntaxError at a byte offset.
func (p *parser) fail(off int, format string, a ...any) { p.failAs(pyerr.Syntax, off, format, a...) }

// stop records the first error and ends the parse.
func (p *parser) stop(err error) {
	if p.err == nil {
		p.err = err
	}
	p.at = len(p.toks) - 1
}

// expect moves over a token of a kind and gives it; a fault if it is not
// there.
func (p *parser) expect(k kind) *token {
	if p.is(k) {
		return p.next()
	}
	p.unexpected(k.describe())
	return p.cur()
}

// expectName moves over a keyword; a fault if it is not there.
func (p *parser) expectName(name string) *token {
	if p.isName(name) {
		return p.next()
	}
	p.unexpected(name)
	return p.cur()
}

// unexpected fails with what was wanted and what is there.
func (p *parser) unexpected(want string) {
	t := p.cur()
	if t.kind == kEOF {
		p.fail(t.off, "unexpected end of template, expected %s.", value.ReprString(want))
		return
	}
	p.fail(t.off, "expected token %s, got %s", value.ReprString(want), value.ReprString(t.describe()))
}

// enter counts a level of nesting; false ends the parse.
func (p *parser) enter() bool {
	p.depth++
	return p.chain(0)
}

// leave ends a level of nesting.
func (p *parser) leave() { p.depth-- }

// chain checks a run of n operators, which nest to the left.
func (p *parser) chain(n int) bool {
	if p.depth+n > p.max {
		p.stop(&limit.Error{Kind: limit.Depth, Max: int64(p.max)})
		return false
	}
	return true
}
