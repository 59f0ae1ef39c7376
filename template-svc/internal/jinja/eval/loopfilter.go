package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// "for x in y if z" filters before the loop counts: loop.length and
// loop.last know only what passes.

// loopFilter compiles "if" of a loop to a lazy filter with a record of its own.
func (c *compiler) loopFilter(n *syntax.For, s *scope) func(f *frame, it value.Iterator) value.Iterator {
	inner := s.function()
	inner.sym.params(n.Target)
	inner.sym.visit(n.Test)
	enter := c.enter(inner)
	bind := c.binder(n.Target, inner)
	test := c.cond(n.Test, inner)
	fn := inner.sym.fn
	price := 1 + cost(n.Test)
	return func(f *frame, it value.Iterator) value.Iterator {
		_ = f.r.m.Bytes(objectBytes + len(fn.slots)*cellBytes) // the next charge fails if this does
		g := &frame{r: f.r, up: f, slots: make([]value.Value, len(fn.slots))}
		do(enter, g)
		return &filtered{it: it, pass: func(v value.Value) (bool, error) {
			if err := f.r.m.Work(price); err != nil {
				return false, err
			}
			if err := bind(g, v); err != nil {
				return false, at(err, n)
			}
			ok, err := test(g)
			return ok, at(err, n)
		}}
	}
}

// filtered gives the values of an iterator that pass a test.
type filtered struct {
	it   value.Iterator
	pass func(v value.Value) (bool, error)
	done bool
}

// Next gives the next value that passes.
func (g *filtered) Next() (value.Value, bool, error) {
	for !g.done {
		v, ok, err := g.it.Next()
		if !ok || err != nil {
			g.done = true
			return v, false, err
		}
		if ok, err = g.pass(v); err != nil {
			g.done = true
			return v, false, err
		}
		if ok {
			return v, true, nil
		}
	}
	return value.Value{}, false, nil
}
