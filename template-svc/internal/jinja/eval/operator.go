package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Operators compute both operands and leave types to package value.

// unary compiles not, - and +.
func (c *compiler) unary(n *syntax.Unary, s *scope) exprFunc {
	if n.Op == "not" {
		inner := c.cond(n.Node, s)
		test := func(f *frame) (bool, error) {
			ok, err := inner(f)
			return !ok, err
		}
		return func(f *frame) (value.Value, error) {
			ok, err := test(f)
			return value.Bool(ok), err
		}
	}
	expr := c.expr(n.Node, s)
	return func(f *frame) (value.Value, error) {
		v, err := expr(f)
		if err == nil {
			v, err = value.Unary(n.Op, v)
		}
		if err != nil {
			return value.Value{}, at(err, n)
		}
		return v, nil
	}
}

// binary compiles a binary operator; "and" and "or" give an operand and
// compute the right one only if needed.
func (c *compiler) binary(n *syntax.Binary, s *scope) exprFunc {
	if n.Op == "+" {
		return c.sum(n, s)
	}
	if inner, ok := negativeBase(n); ok {
		return c.unary(&syntax.Unary{Pos: n.Pos, Op: "-", Node: inner}, s)
	}
	left, right := c.expr(n.Left, s), c.expr(n.Right, s)
	if n.Op == "and" || n.Op == "or" {
		stop := n.Op == "or"
		return func(f *frame) (value.Value, error) {
			v, err := left(f)
			if err != nil || v.Truth() == stop {
				return v, err
			}
			return right(f)
		}
	}
	return func(f *frame) (value.Value, error) {
		a, err := left(f)
		if err != nil {
			return value.Value{}, err
		}
		b, err := right(f)
		if err != nil {
			return value.Value{}, err
		}
		v, err := value.Binary(&f.r.m, n.Op, a, b)
		if err != nil {
			return value.Value{}, at(err, n)
		}
		return v, nil
	}
}

// negativeBase recognises -2 ** x: Jinja2 writes the folded literal into Python
// source, where ** binds tighter than the sign, so it means -(2 ** x) unless x
// is a literal too.
func negativeBase(n *syntax.Binary) (*syntax.Binary, bool) {
	neg, ok := n.Left.(*syntax.Unary)
	if n.Op != "**" || !ok || neg.Op != "-" {
		return nil, false
	}
	if _, ok := neg.Node.(*syntax.Const); !ok || isLiteral(n.Right) {
		return nil, false
	}
	return &syntax.Binary{Pos: n.Pos, Op: "**", Left: neg.Node, Right: n.Right}, true
}

// isLiteral reports whether an expression holds neither names nor calls.
func isLiteral(e syntax.Expr) bool {
	literal := true
	syntax.Walk(e, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.Name, *syntax.Call:
			literal = false
		}
		return literal
	})
	return literal
}
