package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Conditions are compiled to functions of bool: a test or comparison in an
// if then never makes a value of its result.

// condExpr compiles "a if test else b"; without else the false branch is
// undefined with a hint that names the line.
func (c *compiler) condExpr(n *syntax.Cond, s *scope) exprFunc {
	s = s.softly()
	test := c.cond(n.Test, s)
	then := c.expr(n.Then, s)
	var other exprFunc
	if n.Else != nil {
		other = c.expr(n.Else, s)
	} else {
		p := n.At()
		e := pyerr.Newf("", "the inline if-expression on line %d evaluated to false and no else section was defined.", p.Line)
		other = constant(value.Undefined(&value.Undef{Hint: e.Message}))
	}
	return func(f *frame) (value.Value, error) {
		ok, err := test(f)
		if err != nil {
			return value.Value{}, err
		}
		if ok {
			return then(f)
		}
		return other(f)
	}
}

// cond compiles an expression that only its truth is asked of.
func (c *compiler) cond(e syntax.Expr, s *scope) func(f *frame) (bool, error) {
	if !c.folding && isFolded(e) && hasConstantSlice(e) {
		return truth(c.expr(e, s))
	}
	switch n := e.(type) {
	case *syntax.Test:
		return c.test(n, s)
	case *syntax.Compare:
		if len(n.Ops) == 1 {
			return c.comparison(n, s)
		}
	case *syntax.Unary:
		if n.Op == "not" {
			test := c.cond(n.Node, s)
			return func(f *frame) (bool, error) {
				ok, err := test(f)
				return !ok, err
			}
		}
	case *syntax.Binary:
		if n.Op == "and" || n.Op == "or" {
			left, right := c.cond(n.Left, s), c.cond(n.Right, s)
			stop := n.Op == "or"
			return func(f *frame) (bool, error) {
				if ok, err := left(f); ok == stop || err != nil {
					return ok, err
				}
				return right(f)
			}
		}
	}
	return truth(c.expr(e, s))
}

// truth compiles the question whether an expression is true.
func truth(expr exprFunc) func(f *frame) (bool, error) {
	return func(f *frame) (bool, error) {
		v, err := expr(f)
		if err != nil {
			return false, err // what came with it is no value
		}
		return v.Truth(), nil
	}
}

// compare compiles a chain of comparisons: each operand is computed once,
// and the first false one ends the chain.
func (c *compiler) compare(n *syntax.Compare, s *scope) exprFunc {
	if len(n.Ops) == 1 {
		test := c.comparison(n, s)
		return func(f *frame) (value.Value, error) {
			ok, err := test(f)
			return value.Bool(ok), err
		}
	}
	first := c.expr(n.Expr, s)
	rest := make([]exprFunc, len(n.Ops))
	for i, o := range n.Ops {
		rest[i] = c.expr(o.Expr, s)
	}
	return func(f *frame) (value.Value, error) {
		a, err := first(f)
		if err != nil {
			return value.Value{}, err
		}
		for i, e := range rest {
			b, err := e(f)
			if err != nil {
				return value.Value{}, err
			}
			ok, err := relation(&f.r.m, n.Ops[i].Op, a, b)
			if err != nil {
				return value.Value{}, at(err, n)
			}
			if !ok {
				return value.False, nil
			}
			a = b
		}
		return value.True, nil
	}
}

// relation is one comparison.
func relation(m *limit.Meter, op string, a, b value.Value) (bool, error) {
	switch op {
	case "eq":
		return value.Equal(m, a, b)
	case "ne":
		ok, err := value.Equal(m, a, b)
		return !ok, err
	case "in":
		return value.Contains(m, a, b)
	case "notin":
		ok, err := value.Contains(m, a, b)
		return !ok, err
	case "lt":
		return value.Compare(m, value.Less, a, b)
	case "lteq":
		return value.Compare(m, value.LessEqual, a, b)
	case "gt":
		return value.Compare(m, value.Greater, a, b)
	}
	return value.Compare(m, value.GreaterEqual, a, b)
}

// comparison compiles a comparison of two operands; with a constant text, the
// usual case, it costs one string comparison.
func (c *compiler) comparison(n *syntax.Compare, s *scope) func(f *frame) (bool, error) {
	left, right := c.expr(n.Expr, s), c.expr(n.Ops[0].Expr, s)
	op := n.Ops[0].Op
	k, isConst := n.Ops[0].Expr.(*syntax.Const)
	if isConst && k.Value.IsStr() && (op == "eq" || op == "ne") {
		text, want := k.Value.AsStr(), op == "eq"
		cost := 1 + len(text)/256
		return func(f *frame) (bool, error) {
			v, err := left(f)
			if cost > 1 && err == nil {
				err = f.r.m.Work(cost)
			}
			return (v.IsStr() && v.AsStr() == text) == want, err
		}
	}
	return func(f *frame) (bool, error) {
		a, err := left(f)
		if err != nil {
			return false, err
		}
		b, err := right(f)
		if err != nil {
			return false, err
		}
		ok, err := relation(&f.r.m, op, a, b)
		if err != nil {
			return false, at(err, n)
		}
		return ok, nil
	}
}
