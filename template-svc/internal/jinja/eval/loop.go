package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// A loop over a list whose loop variable nobody reads runs without an
// object per loop or round. All others pull from an iterator.

// forLoop is a compiled loop.
type forLoop struct {
	node  *syntax.For
	iter  exprFunc
	bind  func(f *frame, v value.Value) error
	slot  int // of a single name as target, -1 for a tuple
	enter func(f *frame)
	leave func(f *frame)
	body  stmtFunc
	test  func(f *frame, it value.Iterator) value.Iterator // nil without "if"
	other stmtFunc                                         // nil without "else"
	loop  int                                              // slot of the loop object, -1 if nothing reads it
	fn    *function                                        // of a recursive loop
}

// usesLoop reports whether a loop needs its loop object.
func usesLoop(n *syntax.For) bool {
	if n.Recursive || reads(n.Body, "loop")["loop"] {
		return true
	}
	scoped := false
	syntax.Walk(n, func(n syntax.Node) bool {
		if b, ok := n.(*syntax.Block); ok && b.Scoped {
			scoped = true
		}
		return !scoped
	})
	return scoped
}

// forStmt compiles a loop. The target and the body share a frame that is
// set up anew each round; the iterable is computed in the frame around.
func (c *compiler) forStmt(n *syntax.For, s *scope) stmtFunc {
	inner := s.inner()
	if n.Recursive {
		inner = s.function()
	}
	inner.loop = true
	l := &forLoop{node: n, loop: -1, slot: -1, fn: inner.sym.fn}
	if usesLoop(n) {
		l.loop = inner.sym.param("loop").slot
	}
	inner.sym.params(n.Target)
	inner.sym.visitAll(n.Body)
	if n.Test != nil {
		l.test = c.loopFilter(n, s)
	}
	syntax.Walk(n, func(x syntax.Node) bool {
		if name, ok := x.(*syntax.Name); ok && name.Ctx == syntax.Store && name.Name == "loop" {
			c.fail(x, "Can't assign to special loop variable in for-loop target")
		}
		return true
	})
	l.iter = c.expr(n.Iter, s)
	if name, ok := n.Target.(*syntax.Name); ok {
		r, _ := inner.sym.find(name.Name)
		l.slot = r.slot
	} else {
		l.bind = c.binder(n.Target, inner)
	}
	l.enter = c.enter(inner)
	l.body = c.body(n.Body, inner)
	l.leave = c.leave(inner)
	if n.Else != nil {
		l.other = c.elseBranch(n, s, inner)
	}
	if n.Recursive {
		return l.runRecursive
	}
	return l.run
}

// elseBranch compiles the else part in a frame beside the loop's own.
func (c *compiler) elseBranch(n *syntax.For, s, loop *scope) stmtFunc {
	inner := s.inner()
	inner.sym.fn = loop.sym.fn
	inner.sym.visitAll(n.Else)
	enter := c.enter(inner)
	body := c.body(n.Else, inner)
	leave := c.leave(inner)
	return func(f *frame) (control, error) {
		do(enter, f)
		ctl, err := body(f)
		do(leave, f)
		return ctl, err
	}
}

// run runs a loop that cannot be called.
func (l *forLoop) run(f *frame) (control, error) {
	seq, err := l.iter(f)
	if err != nil {
		return goOn, at(err, l.node)
	}
	return l.rounds(f, seq, nil, 0)
}

// rounds runs the loop over seq in the record f. Depth counts recursive calls.
func (l *forLoop) rounds(f *frame, seq value.Value, recurse *recursion, depth int) (control, error) {
	if l.test == nil && l.loop < 0 {
		if k := seq.Kind(); k == value.KindList || k == value.KindTuple {
			return l.cells(f, seq.Cells())
		}
	}
	it, err := seq.Iter()
	if err != nil {
		return goOn, at(err, l.node)
	}
	if l.test != nil {
		it = l.test(f, it)
		seq = value.Value{}
	}
	var lp *loop
	if l.loop >= 0 {
		lp = newLoop(f.r, seq, it, l.test != nil)
		lp.recurse, lp.depth0 = recurse, depth
		f.slots[l.loop] = value.OfObjectRef(&lp.self)
	}
	empty := true
	for {
		var v value.Value
		var ok bool
		if lp != nil {
			v, ok, err = lp.next()
		} else {
			v, ok, err = it.Next()
		}
		if err != nil {
			return goOn, at(err, l.node)
		}
		if !ok {
			break
		}
		ctl, err := l.round(f, v)
		if err != nil {
			return goOn, err
		}
		if ctl == goOn {
			empty = false
		}
		if ctl == doBreak {
			break
		}
	}
	return l.finish(f, empty)
}

// cells is rounds over a list whose loop object nobody reads.
func (l *forLoop) cells(f *frame, cells []value.Value) (control, error) {
	empty := true
	for _, v := range cells {
		ctl, err := l.round(f, v)
		if err != nil {
			return goOn, err
		}
		if ctl == goOn {
			empty = false
		}
		if ctl == doBreak {
			break
		}
	}
	return l.finish(f, empty)
}

// round binds the target and runs the body once. How the body ended says
// whether the round counts for else.
func (l *forLoop) round(f *frame, v value.Value) (control, error) {
	if err := f.r.m.Step(); err != nil {
		return goOn, at(err, l.node)
	}
	if l.slot >= 0 {
		f.slots[l.slot] = v
	} else if err := l.bind(f, v); err != nil {
		return goOn, at(err, l.node)
	}
	do(l.enter, f)
	return l.body(f)
}

// finish runs the else part if no round reached its end.
func (l *forLoop) finish(f *frame, empty bool) (control, error) {
	do(l.leave, f)
	if empty && l.other != nil {
		return l.other(f)
	}
	return goOn, nil
}
