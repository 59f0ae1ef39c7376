package eval

import (
	"strconv"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// What is printed is charged by its bytes, whether or not it was made
// before.

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
