package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
)

// Statements run in a list. Each is charged before it runs, by the number
// of nodes of its own expressions, so that one wide statement cannot do the
// work of a thousand for the price of one.

// priced is a statement with the steps it costs.
type priced struct {
	run  stmtFunc
	cost int
}

// body compiles a list of statements to one.
func (c *compiler) body(nodes []syntax.Node, s *scope) stmtFunc {
	var list []priced
	for _, n := range nodes {
		if st := c.stmt(n, s); st != nil {
			list = append(list, priced{st, 1 + cost(n)})
		}
	}
	switch len(list) {
	case 0:
		return func(*frame) (control, error) { return goOn, nil }
	case 1:
		one := list[0]
		return func(f *frame) (control, error) {
			if err := f.r.m.Work(one.cost); err != nil {
				return goOn, err
			}
			return one.run(f)
		}
	}
	return func(f *frame) (control, error) {
		for i := range list {
			if err := f.r.m.Work(list[i].cost); err != nil {
				return goOn, err
			}
			if ctl, err := list[i].run(f); ctl != goOn || err != nil {
				return ctl, err
			}
		}
		return goOn, nil
	}
}

// nodesPerStep is how many nodes of its own expressions a statement may have
// for one step; larger ones cost more, so that steps bound the work done.
const nodesPerStep = 8

// cost gives the extra steps of a statement's or expression's own nodes, the
// bodies of statements not counted.
func cost(n syntax.Node) int {
	size := 0
	var count func(n syntax.Node)
	count = func(n syntax.Node) {
		if _, ok := n.(syntax.Expr); ok {
			size++
			syntax.Children(n, count)
		}
	}
	if _, ok := n.(syntax.Expr); ok {
		count(n)
	} else {
		syntax.Children(n, count)
	}
	return size / nodesPerStep
}

// stmt compiles a statement; nil if it does nothing.
func (c *compiler) stmt(n syntax.Node, s *scope) stmtFunc {
	switch n := n.(type) {
	case *syntax.Output:
		if c.extended && s.top {
			return nil
		}
		return c.output(n, s)
	case *syntax.If:
		return c.ifStmt(n, s.softly())
	case *syntax.For:
		return c.forStmt(n, s)
	case *syntax.Set:
		return c.set(n, s)
	case *syntax.SetBlock:
		return c.setBlock(n, s)
	case *syntax.Macro:
		return c.macroStmt(n, s)
	case *syntax.CallBlock:
		return c.callBlock(n, s)
	case *syntax.Generation:
		return c.generation(n, s)
	case *syntax.FilterBlock:
		return c.filterBlock(n, s)
	case *syntax.With:
		return c.with(n, s)
	case *syntax.Block:
		return c.blockStmt(n, s)
	case *syntax.Autoescape:
		return c.autoescape(n, s)
	case *syntax.Loader:
		return c.loader(n, s)
	case *syntax.Break:
		return c.jump(n, s, "break", doBreak)
	case *syntax.Continue:
		return c.jump(n, s, "continue", doContinue)
	}
	return nil
}

// jump compiles break and continue, which Python refuses at compile time
// outside a loop of the same function.
func (c *compiler) jump(n syntax.Node, s *scope, word string, ctl control) stmtFunc {
	if !s.loop {
		msg := "'break' outside loop"
		if word == "continue" {
			msg = "'continue' not properly in loop"
		}
		c.refuse(codePass, n, msg)
	}
	return func(*frame) (control, error) { return ctl, nil }
}

// at sets the place of a failed statement or expression.
func at(err error, n syntax.Node) error {
	if err == nil {
		return nil
	}
	p := n.At()
	return pyerr.At(err, p.Line, p.Col)
}
