package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// compiler builds one program. Its error is sticky: the first one counts.
type compiler struct {
	err        error
	index      map[string]int // of names
	names      []string
	undeclared map[string]bool
	blocks     map[string]*blockDef
	rootFn     *function
	// exports: the template has blocks, which see what the top level binds.
	exports bool
	// extended: an extends tag was compiled, so nothing below prints.
	extended bool
	// folding: slices that fail give undefined.
	folding bool
	// escaping: an autoescape block is around.
	escaping bool
}

// blockDef is a named block; body is set when all of the root is compiled.
type blockDef struct {
	node *syntax.Block
	fn   *function
	body stmtFunc
}

// fail records a TemplateAssertionError at a node unless an error is
// recorded already.
func (c *compiler) fail(n syntax.Node, format string, a ...any) {
	if c.err == nil {
		p := n.At()
		e := pyerr.Newf(pyerr.Assertion, format, a...)
		e.Line, e.Col = p.Line, p.Col
		c.err = e
	}
}

// global gives the index of a name among the render's variables.
func (c *compiler) global(name string) int {
	i, ok := c.index[name]
	if !ok {
		i = len(c.names)
		c.index[name] = i
		c.names = append(c.names, name)
	}
	return i
}

// template compiles the root and then its blocks, which see its exports alone.
func (c *compiler) template(t *syntax.Template) stmtFunc {
	syntax.Walk(t, func(n syntax.Node) bool {
		b, ok := n.(*syntax.Block)
		if !ok {
			return true
		}
		c.exports = true
		if c.blocks[b.Name] != nil {
			c.fail(b, "block %s defined twice", value.ReprString(b.Name))
		}
		c.blocks[b.Name] = &blockDef{node: b}
		return true
	})
	s := &scope{sym: newSymbols(nil, newFunction(nil), 0), top: true}
	c.rootFn = s.sym.fn
	self := c.selfParam(t.Body, s)
	s.sym.visitAll(t.Body)
	enter := c.enter(s)
	body := c.body(t.Body, s)
	syntax.Walk(t, func(n syntax.Node) bool {
		if b, ok := n.(*syntax.Block); ok {
			c.block(c.blocks[b.Name])
		}
		return true
	})
	return func(f *frame) (control, error) {
		do(self, f)
		do(enter, f)
		return body(f)
	}
}

// selfParam declares self if the body reads it.
func (c *compiler) selfParam(body []syntax.Node, s *scope) func(f *frame) {
	if !reads(body, "self")["self"] {
		return nil
	}
	slot := s.sym.param("self").slot
	blocks := c.blocks
	return func(f *frame) { f.slots[slot] = value.OfObject(&blockSet{r: f.r, blocks: blocks}) }
}

// block compiles a block in a function of its own: it sees the render's
// variables and what the top level has exported, nothing of the frame it
// stands in.
func (c *compiler) block(b *blockDef) {
	s := &scope{sym: newSymbols(nil, newFunction(nil), 0)}
	b.fn = s.sym.fn
	self := c.selfParam(b.node.Body, s)
	super := -1
	if reads(b.node.Body, "super")["super"] {
		super = s.sym.param("super").slot
	}
	noSuper := value.Undefined(&value.Undef{
		Name: "super", Hint: "there is no parent block called " + value.ReprString(b.node.Name) + ".",
	})
	s.sym.visitAll(b.node.Body)
	enter := c.enter(s)
	body := c.body(b.node.Body, s)
	b.body = func(f *frame) (control, error) {
		do(self, f)
		if super >= 0 {
			f.slots[super] = noSuper
		}
		do(enter, f)
		return body(f)
	}
}

// priced is a statement with the steps it costs.
type priced struct {
	run  stmtFunc
	cost int
}

// body compiles a list of statements to one.
func (c *compiler) body(nodes []syntax.Node, s *scope) stmtFunc {
	var list []priced
	for _, n := range nodes {
		if st := c.stmt(n, s); st != nil {
			list = append(list, priced{st, 1 + cost(n)})
		}
	}
	switch len(list) {
	case 0:
		return func(*frame) (control, error) { return goOn, nil }
	case 1:
		one := list[0]
		return func(f *frame) (control, error) {
			if err := f.r.m.Work(one.cost); err != nil {
				return goOn, err
			}
			return one.run(f)
		}
	}
	return func(f *frame) (control, error) {
		for i := range list {
			if err := f.r.m.Work(list[i].cost); err != nil {
				return goOn, err
			}
			if ctl, err := list[i].run(f); ctl != goOn || err != nil {
				return ctl, err
			}
		}
		return goOn, nil
	}
}

// nodesPerStep is how many nodes of its own expressions a statement may have
// for one step; larger ones cost more, so that steps bound the work done.
const nodesPerStep = 8

// cost gives the extra steps of a statement's or expression's own nodes, the
// bodies of statements not counted.
func cost(n syntax.Node) int {
	size := 0
	var count func(n syntax.Node)
	count = func(n syntax.Node) {
		if _, ok := n.(syntax.Expr); ok {
			size++
			syntax.Children(n, count)
		}
	}
	if _, ok := n.(syntax.Expr); ok {
		count(n)
	} else {
		syntax.Children(n, count)
	}
	return size / nodesPerStep
}

// stmt compiles a statement; nil if it does nothing.
func (c *compiler) stmt(n syntax.Node, s *scope) stmtFunc {
	switch n := n.(type) {
	case *syntax.Output:
		if c.extended && s.top {
			return nil
		}
		return c.output(n, s)
	case *syntax.If:
		return c.ifStmt(n, s.softly())
	case *syntax.For:
		return c.forStmt(n, s)
	case *syntax.Set:
		return c.set(n, s)
	case *syntax.SetBlock:
		return c.setBlock(n, s)
	case *syntax.Macro:
		return c.macroStmt(n, s)
	case *syntax.CallBlock:
		return c.callBlock(n, s)
	case *syntax.Generation:
		return c.generation(n, s)
	case *syntax.FilterBlock:
		return c.filterBlock(n, s)
	case *syntax.With:
		return c.with(n, s)
	case *syntax.Block:
		return c.blockStmt(n, s)
	case *syntax.Autoescape:
		return c.autoescape(n, s)
	case *syntax.Loader:
		return c.loader(n, s)
	case *syntax.Break:
		return c.jump(n, s, "break", doBreak)
	case *syntax.Continue:
		return c.jump(n, s, "continue", doContinue)
	}
	return nil
}

// jump compiles break and continue, which Python refuses at compile time
// outside a loop of the same function.
func (c *compiler) jump(n syntax.Node, s *scope, word string, ctl control) stmtFunc {
	if !s.loop && c.err == nil {
		p := n.At()
		msg := "'break' outside loop"
		if word == "continue" {
			msg = "'continue' not properly in loop"
		}
		c.err = &pyerr.Error{Type: "SyntaxError", Message: msg, Line: p.Line, Col: p.Col}
	}
	return func(*frame) (control, error) { return ctl, nil }
}

// at sets the place of a failed statement or expression.
func at(err error, n syntax.Node) error {
	if err == nil {
		return nil
	}
	p := n.At()
	return pyerr.At(err, p.Line, p.Col)
}
