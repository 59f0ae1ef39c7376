package syntax

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// parser is recursive descent over the tokens. Its error is sticky: after the
// first fault the current token is the eof token, so every loop ends, and what
// the rest of the descent builds is thrown away.
type parser struct {
	src   *source
	toks  []token
	at    int
	fault error // the lexer's, in the place of the last token
	err   error
	depth int
	max   int
	tags  []string   // tags being parsed, innermost last
	ends  [][]string // end tags looked for, innermost last
}

// Parse parses source. Faults are *pyerr.Error of type TemplateSyntaxError, or
// *limit.Error for source size and nesting.
func Parse(text string, limits limit.Limits) (*Template, error) {
	limits = limits.Complete()
	if len(text) > limits.SourceBytes {
		return nil, &limit.Error{Kind: limit.Source, Max: int64(limits.SourceBytes)}
	}
	src := newSource(text)
	toks, fault := tokenize(src)
	src.place(toks)
	p := &parser{src: src, toks: toks, fault: fault, max: limits.Depth}
	p.reach(0)
	body := p.subparse(nil)
	if p.err != nil {
		return nil, p.err
	}
	t := &Template{Pos: Pos{1, 1}, Body: body}
	// Chains of operators nest to the left without nesting the parser; two
	// levels of tree per level of nesting leave room for both.
	if height(t) > 2*p.max {
		return nil, &limit.Error{Kind: limit.Depth, Max: int64(p.max)}
	}
	return t, nil
}

// subparse reads statements up to one of the end tags, which stays current.
func (p *parser) subparse(ends []string) []Node {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	if ends != nil {
		p.ends = append(p.ends, ends)
		defer func() { p.ends = p.ends[:len(p.ends)-1] }()
	}
	var body []Node
	var out *Output
	add := func(e Expr) {
		if out == nil {
			out = &Output{Pos: e.At()}
			body = append(body, out)
		}
		out.Nodes = append(out.Nodes, e)
	}
	for p.err == nil && !p.is(kEOF) {
		t := p.next()
		switch t.kind {
		case kData:
			add(&Text{Pos: p.pos(t), Data: t.text})
		case kVariableBegin:
			add(p.tuple(tupleOf{condexpr: true}))
			p.expect(kVariableEnd)
		default:
			out = nil
			if p.cur().kind == kName && contains(ends, p.cur().text) {
				return body
			}
			if n := p.statement(); n != nil {
				body = append(body, n)
			}
			p.expect(kBlockEnd)
		}
	}
	return body
}

// contains reports whether list holds s.
func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// statements reads the body of a tag up to one of the end tags and gives the
// one that was found, which is moved over.
func (p *parser) statements(ends ...string) (body []Node, end string) {
	p.skip("colon")
	p.expect(kBlockEnd)
	body = p.subparse(ends)
	if p.err == nil && p.is(kEOF) {
		p.unknown("", append(append([][]string{}, p.ends...), ends))
	}
	return body, p.next().text
}

// unknown fails for an unknown tag, or for the end of the template if name is "".
func (p *parser) unknown(name string, ends [][]string) {
	var msg []string
	if name == "" {
		msg = append(msg, "Unexpected end of template.")
	} else {
		msg = append(msg, "Encountered unknown tag "+value.ReprString(name)+".")
	}
	if len(ends) > 0 {
		var quoted []string
		for _, e := range ends[len(ends)-1] {
			quoted = append(quoted, value.ReprString(e))
		}
		looking := strings.Join(quoted, " or ")
		nested := false
		for _, e := range ends {
			nested = nested || name != "" && contains(e, name)
		}
		if nested {
			msg = append(msg, "You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for "+looking+".")
		} else {
			msg = append(msg, "Jinja was looking for the following tags: "+looking+".")
		}
	}
	if n := len(p.tags); n > 0 {
		msg = append(msg, "The innermost block that needs to be closed is "+value.ReprString(p.tags[n-1])+".")
	}
	p.fail(p.cur().off, "%s", strings.Join(msg, " "))
}

// statement reads one tag; nil after a fault.
func (p *parser) statement() Node {
	t := p.cur()
	if t.kind != kName {
		p.fail(t.off, "tag name expected")
		return nil
	}
	parse := p.tagParser(t.text)
	if parse == nil {
		p.unknown(t.text, p.ends)
		return nil
	}
	p.tags = append(p.tags, t.text)
	n := parse()
	p.tags = p.tags[:len(p.tags)-1]
	return n
}

// tagParser gives what reads the rest of a tag, nil for an unknown one.
func (p *parser) tagParser(tag string) func() Node {
	switch tag {
	case "for":
		return p.parseFor
	case "if":
		return p.parseIf
	case "block":
		return p.parseBlock
	case "extends", "include":
		return p.parseInclude
	case "import":
		return p.parseImport
	case "from":
		return p.parseFrom
	case "print":
		return p.parsePrint
	case "macro":
		return p.parseMacro
	case "set":
		return p.parseSet
	case "with":
		return p.parseWith
	case "autoescape":
		return p.parseAutoescape
	case "call":
		return p.parseCallBlock
	case "filter":
		return p.parseFilterBlock
	case "generation":
		return p.parseGeneration
	case "break":
		return func() Node { return &Break{p.pos(p.next())} }
	case "continue":
		return func() Node { return &Continue{p.pos(p.next())} }
	}
	return nil
}
