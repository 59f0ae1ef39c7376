package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// expr compiles an expression.
func (c *compiler) expr(e syntax.Expr, s *scope) exprFunc {
	usual := c.plainExpr(e, s)
	if !c.folding && isFolded(e) && hasConstantSlice(e) {
		return c.foldable(e, s, usual, false)
	}
	return usual
}

// isFolded reports whether Jinja2 tries to compute an expression ahead of time.
func isFolded(e syntax.Expr) bool {
	switch e.(type) {
	case *syntax.Cond, *syntax.Filter, *syntax.Test, *syntax.Getattr, *syntax.Getitem, *syntax.Concat, *syntax.Compare,
		*syntax.Binary, *syntax.Unary:
		return true
	}
	return false
}

// plainExpr compiles an expression as it stands, without the question
// whether it could be computed ahead of time.
func (c *compiler) plainExpr(e syntax.Expr, s *scope) exprFunc {
	switch n := e.(type) {
	case *syntax.Const:
		return constant(n.Value)
	case *syntax.Text:
		return constant(value.Str(n.Data))
	case *syntax.Name:
		if _, ok := s.sym.find(n.Name); !ok {
			c.unknownName(n)
			return constant(value.None)
		}
		return c.name(n, s)
	case *syntax.Tuple:
		return c.cells(n.Items, s, value.Tuple)
	case *syntax.List:
		return c.cells(n.Items, s, value.List)
	case *syntax.Dict:
		return c.dict(n, s)
	case *syntax.Cond:
		return c.condExpr(n, s)
	case *syntax.Filter:
		return c.filter(n, s)
	case *syntax.Test:
		test := c.test(n, s)
		return func(f *frame) (value.Value, error) {
			ok, err := test(f)
			return value.Bool(ok), err
		}
	case *syntax.Call:
		call := c.call(n, s, false)
		return func(f *frame) (value.Value, error) { return call(f, value.Value{}) }
	case *syntax.Getattr:
		return c.getattr(n, s)
	case *syntax.Getitem:
		return c.getitem(n, s)
	case *syntax.Concat:
		return c.concat(n, s)
	case *syntax.Compare:
		return c.compare(n, s)
	case *syntax.Binary:
		return c.binary(n, s)
	case *syntax.Unary:
		return c.unary(n, s)
	case *syntax.Slice: // within a tuple
		c.refuse(parsePass, e, "invalid syntax")
		return constant(value.None)
	}
	c.fail(e, "unexpected expression")
	return constant(value.None)
}

// unknownName fails as Jinja2's code generator does for a name that only the
// filter of a set block reads.
func (c *compiler) unknownName(n *syntax.Name) {
	c.fail(n, "Tried to resolve a name to a reference that was unknown to the frame (%s)", value.ReprString(n.Name))
	if e, ok := c.err.(*pyerr.Error); ok && e.Line == n.Line && e.Col == n.Col {
		e.Type = "AssertionError"
	}
}
