package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Statements give back how they ended, since break and continue must cross
// ifs and captures up to their loop.

// branch is one arm of an if.
type branch struct {
	test func(f *frame) (bool, error)
	body stmtFunc
	cost int // of the test of an elif
}

// ifStmt compiles an if with its elifs. All branches share the frame
// around.
func (c *compiler) ifStmt(n *syntax.If, s *scope) stmtFunc {
	arms := []branch{{c.cond(n.Test, s), c.body(n.Body, s), 0}}
	for _, e := range n.Elif {
		arms = append(arms, branch{c.cond(e.Test, s), c.body(e.Body, s), 1 + cost(e.Test)})
	}
	var other stmtFunc
	if n.Else != nil {
		other = c.body(n.Else, s)
	}
	return func(f *frame) (control, error) {
		for i := range arms {
			if arms[i].cost > 0 {
				if err := f.r.m.Work(arms[i].cost); err != nil {
					return goOn, at(err, n)
				}
			}
			ok, err := arms[i].test(f)
			if err != nil {
				return goOn, at(err, n)
			}
			if ok {
				return arms[i].body(f)
			}
		}
		if other != nil {
			return other(f)
		}
		return goOn, nil
	}
}

// with compiles with ... endwith. The values see the frame around, not one
// another.
func (c *compiler) with(n *syntax.With, s *scope) stmtFunc {
	inner := s.inner()
	for _, t := range n.Targets {
		inner.sym.visit(t)
	}
	inner.sym.visitAll(n.Body)
	enter := c.enter(inner)
	binds := make([]func(*frame, value.Value) error, len(n.Targets))
	exprs := make([]exprFunc, len(n.Values))
	for i := range n.Targets {
		binds[i] = c.binder(n.Targets[i], inner)
		exprs[i] = c.expr(n.Values[i], s)
	}
	body := c.body(n.Body, inner)
	leave := c.leave(inner)
	return func(f *frame) (control, error) {
		do(enter, f)
		for i := range binds {
			v, err := exprs[i](f)
			if err == nil {
				err = binds[i](f, v)
			}
			if err != nil {
				return goOn, at(err, n)
			}
		}
		ctl, err := body(f)
		do(leave, f)
		return ctl, err
	}
}

// autoescape compiles autoescape ... endautoescape. Only code inside it
// pays for the question whether to escape.
func (c *compiler) autoescape(n *syntax.Autoescape, s *scope) stmtFunc {
	inner := s.inner()
	inner.sym.visit(n.On)
	inner.sym.visitAll(n.Body)
	enter := c.enter(inner)
	on := c.cond(n.On, inner)
	before := c.escaping
	c.escaping = true
	body := c.body(n.Body, inner)
	c.escaping = before
	leave := c.leave(inner)
	return func(f *frame) (control, error) {
		do(enter, f)
		was := f.r.autoescape
		now, err := on(f)
		if err != nil {
			return goOn, at(err, n)
		}
		f.r.autoescape = now
		ctl, err := body(f)
		if ctl == goOn {
			// A jump out of the block leaves the setting on, as Jinja2 does.
			f.r.autoescape = was
		}
		do(leave, f)
		return ctl, err
	}
}
