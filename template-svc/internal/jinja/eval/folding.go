package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Jinja2 computes expressions of literals when it compiles. That shows in
// one place: there, a slice that fails gives undefined instead of an error.

// hasConstantSlice reports whether an expression is made of literals alone and
// slices something. Jinja2 computes such an expression ahead of time, and then
// a slice that fails gives undefined.
func hasConstantSlice(e syntax.Expr) bool {
	literal, slices := true, false
	syntax.Walk(e, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Name, *syntax.Call:
			literal = false
		case *syntax.Cond:
			literal = literal && n.Else != nil
		case *syntax.Filter:
			switch n.Name {
			case "map", "select", "reject", "selectattr", "rejectattr", "random":
				literal = false
			}
		case *syntax.Slice:
			slices = true
		}
		return literal
	})
	return literal && slices
}

// foldable compiles an expression of literals with slices that may fail; if
// anything else fails, the expression is computed as usual. An undefined result
// counts only if it is printed.
func (c *compiler) foldable(e syntax.Expr, s *scope, usual exprFunc, printed bool) exprFunc {
	c.folding = true
	folded := c.plainExpr(e, s)
	c.folding = false
	return func(f *frame) (value.Value, error) {
		v, err := folded(f)
		if _, ok := err.(*pyerr.Error); ok || v.IsUndefined() && !printed {
			return usual(f)
		}
		return v, err
	}
}
