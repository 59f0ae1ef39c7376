package syntax

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Tags that open a scope or a setting around a body.

// parseAutoescape reads: autoescape expression ... endautoescape.
func (p *parser) parseAutoescape() Node {
	n := &Autoescape{Pos: p.pos(p.next())}
	n.On = p.expression()
	n.Body, _ = p.statements("endautoescape")
	return n
}

// parseGeneration reads: generation ... endgeneration.
func (p *parser) parseGeneration() Node {
	n := &Generation{Pos: p.pos(p.next())}
	n.Body, _ = p.statements("endgeneration")
	return n
}

// parseBlock reads: block name [ scoped ] [ required ] ... endblock [ name
// ].
func (p *parser) parseBlock() Node {
	n := &Block{Pos: p.pos(p.next())}
	n.Name = p.expect(kName).text
	n.Scoped = p.skipName("scoped")
	n.Required = p.skipName("required")
	if p.is("sub") {
		p.fail(p.cur().off, "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, "+
			"use an underscore instead.")
	}
	n.Body, _ = p.statements("endblock")
	if n.Required && !blank(n.Body) {
		p.fail(p.cur().off, "Required blocks can only contain comments or whitespace")
	}
	p.skipName(n.Name)
	return n
}

// blank reports whether a body holds nothing but whitespace.
func blank(body []Node) bool {
	for _, b := range body {
		out, ok := b.(*Output)
		if !ok {
			return false
		}
		for _, e := range out.Nodes {
			if t, ok := e.(*Text); !ok || strings.TrimFunc(t.Data, value.IsSpace) != "" {
				return false
			}
		}
	}
	return true
}
