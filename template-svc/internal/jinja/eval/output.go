package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Most of a chat template prints. Each kind of printed expression that
// would make a text only to print it writes to the output instead.

// output compiles a run of plain text and printed expressions.
func (c *compiler) output(n *syntax.Output, s *scope) stmtFunc {
	parts := make([]func(f *frame) error, 0, len(n.Nodes))
	for _, e := range n.Nodes {
		parts = append(parts, c.print(e, s))
	}
	if len(parts) == 1 {
		one := parts[0]
		return func(f *frame) (control, error) { return goOn, one(f) }
	}
	return func(f *frame) (control, error) {
		for _, p := range parts {
			if err := p(f); err != nil {
				return goOn, err
			}
		}
		return goOn, nil
	}
}

// print compiles the printing of one expression. What makes a text only to
// print it writes to the output at once.
func (c *compiler) print(e syntax.Expr, s *scope) func(f *frame) error {
	switch n := e.(type) {
	case *syntax.Text:
		data := n.Data
		return func(f *frame) error { return f.r.emit(data) }
	case *syntax.Const:
		if n.Value.IsStr() && !c.escaping {
			data := n.Value.AsStr()
			return func(f *frame) error { return f.r.emit(data) }
		}
	case *syntax.Binary:
		if n.Op == "+" && !c.escaping && !hasConstantSlice(n) {
			return c.printSum(n, s)
		}
	case *syntax.Concat:
		if !c.escaping && !hasConstantSlice(n) {
			return c.printConcat(n, s)
		}
	case *syntax.Call:
		if !c.escaping {
			return c.printCall(n, s)
		}
	case *syntax.Filter:
		if n.Name == "tojson" && n.Node != nil && !c.escaping && !hasConstantSlice(n) {
			return c.printJSON(n, s)
		}
	case *syntax.Cond:
		if n.Else != nil && !c.escaping && !hasConstantSlice(n) {
			s = s.softly()
			test, then, other := c.cond(n.Test, s), c.print(n.Then, s), c.print(n.Else, s)
			return func(f *frame) error {
				ok, err := test(f)
				if err != nil {
					return at(err, n)
				}
				if ok {
					return then(f)
				}
				return other(f)
			}
		}
	}
	expr := c.expr(e, s)
	if hasConstantSlice(e) {
		expr = c.foldable(e, s, expr, true)
	}
	print := c.printer()
	return func(f *frame) error {
		v, err := expr(f)
		if err == nil {
			err = print(f, v)
		}
		return at(err, e)
	}
}

// textFilter compiles the filters of a block, whose innermost operand is the
// block's text.
func (c *compiler) textFilter(n *syntax.Filter, s *scope) func(f *frame, text value.Value) (value.Value, error) {
	c.checkFilter(n, s)
	apply := c.applyFilter(n, s)
	var inner func(f *frame, text value.Value) (value.Value, error)
	if next, ok := n.Node.(*syntax.Filter); ok {
		inner = c.textFilter(next, s)
	}
	return func(f *frame, text value.Value) (value.Value, error) {
		if inner != nil {
			var err error
			if text, err = inner(f, text); err != nil {
				return text, err
			}
		}
		return apply(f, text)
	}
}
