package syntax

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// parseFor reads: for target in tuple [ if expression ] [ recursive ] ... [
// else ... ] endfor.
func (p *parser) parseFor() Node {
	n := &For{Pos: p.pos(p.next())}
	n.Target = p.target(tupleOf{extraEnd: "in"})
	p.expectName("in")
	n.Iter = p.tuple(tupleOf{extraEnd: "recursive"})
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

// nameTarget reads a single name to bind.
func (p *parser) nameTarget(ctx Access) *Name {
	t := p.expect(kName)
	if isConstName(t.text) {
		p.fail(t.off, "can't assign to 'name'")
	}
	return &Name{Pos: p.pos(t), Name: t.text, Ctx: ctx}
}

// isConstName reports the names that are constants.
func isConstName(name string) bool {
	switch name {
	case "true", "false", "none", "True", "False", "None":
		return true
	}
	return false
}

// target reads what a for, set or with binds.
func (p *parser) target(how tupleOf) Expr {
	off := p.cur().off
	how.primary = true
	e := p.tuple(how)
	setAccess(e, Store)
	if p.err == nil && !canAssign(e) {
		p.fail(off, "can't assign to '%s'", typeWord(e))
	}
	return e
}

// setAccess makes every name of a target one that is bound.
func setAccess(e Expr, ctx Access) {
	Walk(e, func(n Node) bool {
		if name, ok := n.(*Name); ok {
			name.Ctx = ctx
		}
		return true
	})
}

// canAssign reports whether an expression is a target.
func canAssign(e Expr) bool {
	switch e := e.(type) {
	case *Name:
		return !isConstName(e.Name)
	case *NSRef:
		return true
	case *Tuple:
		for _, i := range e.Items {
			if !canAssign(i) {
				return false
			}
		}
		return true
	}
	return false
}

// typeWord names an expression in the refusal to assign to it.
func typeWord(e Expr) string {
	switch e := e.(type) {
	case *Const:
		return "const"
	case *Tuple:
		return "tuple"
	case *List:
		return "list"
	case *Dict:
		return "dict"
	case *Cond:
		return "condexpr"
	case *Filter:
		return "filter"
	case *Test:
		return "test"
	case *Call:
		return "call"
	case *Getattr:
		return "getattr"
	case *Getitem:
		return "getitem"
	case *Concat:
		return "concat"
	case *Compare:
		return "compare"
	case *Binary:
		return map[string]string{
			"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "mod", "**": "pow",
			"and": "and", "or": "or",
		}[e.Op]
	case *Unary:
		return map[string]string{"not": "not", "-": "neg", "+": "pos"}[e.Op]
	}
	return "expr"
}
