package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// The root is compiled first and the blocks after it, since blocks see what
// the root exports. Names of the render's variables are numbered while
// compiling goes on.

// compiler builds one program. Its error is sticky: the first one counts.
type compiler struct {
	err error
	// python is the fault that Python finds in the code that Jinja2 makes of the template, if Jinja2 finds none.
	python     *pyerr.Error
	pythonPass pythonPass
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
