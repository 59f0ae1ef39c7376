package eval

import (
	"strconv"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

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

// printer gives the printing of a value: its text, escaped within an
// autoescape block.
func (c *compiler) printer() func(f *frame, v value.Value) error {
	if !c.escaping {
		return printValue
	}
	return func(f *frame, v value.Value) error {
		if !f.r.autoescape || v.IsMarkup() {
			return printValue(f, v)
		}
		s, err := value.StrOf(&f.r.m, v)
		if err != nil {
			return err
		}
		return f.r.emit(value.Escape(s))
	}
}

// printValue prints the text of a value. Numbers and strings go straight to
// the output.
func printValue(f *frame, v value.Value) error {
	if v.IsStr() {
		return f.r.emit(v.AsStr())
	}
	if v.Kind() == value.KindInt {
		f.r.out = strconv.AppendInt(f.r.out, v.AsInt(), 10)
		return f.r.m.Bytes(cellBytes)
	}
	// Not straight into the output: a loop's text may run a macro.
	s, err := value.StrOf(&f.r.m, v)
	if err != nil {
		return err
	}
	return f.r.emit(s)
}

// printSum prints a chain of +; plain strings are written one after another
// instead of being joined first.
func (c *compiler) printSum(n *syntax.Binary, s *scope) func(f *frame) error {
	a := c.adder(n, s)
	return func(f *frame) error {
		var space [textParts]string
		parts, v, err := a.run(f, space[:0])
		if err != nil {
			return at(err, n)
		}
		if parts == nil {
			return at(printValue(f, v), n)
		}
		for _, p := range parts {
			if err := f.r.emit(p); err != nil {
				return at(err, n)
			}
		}
		return nil
	}
}

// printConcat prints the operands of ~ one after another; what an operand
// prints while it is computed (nothing: macros give text) cannot come between.
func (c *compiler) printConcat(n *syntax.Concat, s *scope) func(f *frame) error {
	parts := make([]exprFunc, len(n.Nodes))
	for i, e := range n.Nodes {
		parts[i] = c.expr(e, s)
	}
	return func(f *frame) error {
		for _, p := range parts {
			v, err := p(f)
			if err == nil {
				err = printValue(f, v)
			}
			if err != nil {
				return at(err, n)
			}
		}
		return nil
	}
}

// printCall prints the result of a call; a macro's text goes to the output
// without being made a value.
func (c *compiler) printCall(n *syntax.Call, s *scope) func(f *frame) error {
	name, ok := n.Func.(*syntax.Name)
	if !ok {
		call := c.call(n, s, false)
		return func(f *frame) error {
			v, err := call(f, value.Value{})
			if err == nil {
				err = printValue(f, v)
			}
			return at(err, n)
		}
	}
	callee := c.expr(name, s)
	list := c.args(&n.Args, s)
	return func(f *frame) error {
		fn, err := callee(f)
		if err != nil {
			return at(err, n)
		}
		a := f.r.newArgs()
		base := len(f.r.stack)
		if err = list.eval(f, base, a); err == nil {
			if m, ok := fn.AsObject().(*macro); ok {
				err = m.print(f.r, a)
			} else {
				var v value.Value
				if v, err = f.r.call(fn, a); err == nil {
					err = printValue(f, v)
				}
			}
		}
		f.r.endArgs(a, base)
		return at(err, n)
	}
}

// printJSON prints x|tojson into the output without making a string of it.
func (c *compiler) printJSON(n *syntax.Filter, s *scope) func(f *frame) error {
	expr := c.expr(n.Node, s)
	list := c.args(&n.Args, s)
	return func(f *frame) error {
		v, err := expr(f)
		if err != nil {
			return err
		}
		base := len(f.r.stack)
		f.r.stack = append(f.r.stack, v)
		a := f.r.newArgs()
		if err = list.eval(f, base, a); err == nil {
			p := &f.r.printer
			p.Buf, p.Meter = f.r.out, &f.r.m
			err = dumpJSON(p, a)
			f.r.out, p.Buf = p.Buf, nil
		}
		f.r.endArgs(a, base)
		return at(err, n)
	}
}

// textFilter compiles the filters of a block, whose innermost operand is the
// block's text.
func (c *compiler) textFilter(n *syntax.Filter, s *scope) func(f *frame, text value.Value) (value.Value, error) {
	var inner func(f *frame, text value.Value) (value.Value, error)
	if next, ok := n.Node.(*syntax.Filter); ok {
		inner = c.textFilter(next, s)
	}
	apply := c.applyFilter(n, s)
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
