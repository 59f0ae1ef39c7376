package syntax

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// There is no loader, so these tags only need to parse: what they name
// cannot be found.

// parseInclude reads include and extends, which fail when they are reached.
func (p *parser) parseInclude() Node {
	t := p.next()
	n := &Loader{Pos: p.pos(t), Tag: t.text, Template: p.expression()}
	if t.text == "include" {
		if p.isName("ignore") && p.look().kind == kName && p.look().text == "missing" {
			p.next()
			p.next()
			n.IgnoreMissing = true
		}
		p.importContext()
	}
	return n
}

// importContext reads "with context" or "without context".
func (p *parser) importContext() bool {
	if (p.isName("with") || p.isName("without")) && p.look().kind == kName && p.look().text == "context" {
		p.next()
		p.next()
		return true
	}
	return false
}

// parseImport reads: import expression as name.
func (p *parser) parseImport() Node {
	n := &Loader{Pos: p.pos(p.next()), Tag: "import", Template: p.expression()}
	p.expectName("as")
	n.Names = []string{p.nameTarget(Store).Name}
	p.importContext()
	return n
}

// parseFrom reads: from expression import name [ as name ], ...
func (p *parser) parseFrom() Node {
	n := &Loader{Pos: p.pos(p.next()), Tag: "from", Template: p.expression()}
	p.expectName("import")
	for p.err == nil {
		if len(n.Names) > 0 {
			p.expect("comma")
		}
		if !p.is(kName) {
			p.expect(kName)
			break
		}
		if p.importContext() {
			break
		}
		off := p.cur().off
		name := p.nameTarget(Store).Name
		if strings.HasPrefix(name, "_") {
			p.failAs(pyerr.Assertion, off, "names starting with an underline can not be imported")
		}
		if p.skipName("as") {
			name = p.nameTarget(Store).Name
		}
		n.Names = append(n.Names, name)
		if p.importContext() || !p.is("comma") {
			break
		}
	}
	return n
}
