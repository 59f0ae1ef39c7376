package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
)

// The names of a frame are entered in the order of the source. Statements
// with a frame of their own are entered by what they read or bind in this
// one.

// visitAll enters the names of nodes in order. Frames of their own are not
// looked into.
func (s *symbols) visitAll(nodes []syntax.Node) {
	for _, n := range nodes {
		s.visit(n)
	}
}

// visit enters the names of a node.
func (s *symbols) visit(n syntax.Node) {
	switch n := n.(type) {
	case nil:
	case *syntax.Name:
		switch n.Ctx {
		case syntax.Load:
			s.use(n.Name)
		case syntax.Store:
			s.store(n.Name)
		default:
			s.param(n.Name)
		}
	case *syntax.NSRef:
		s.use(n.Name)
	case *syntax.If:
		s.visitIf(n)
	case *syntax.Macro:
		s.store(n.Name)
	case *syntax.Loader:
		s.visit(n.Template)
		for _, name := range n.Names {
			s.store(name)
		}
	case *syntax.Set:
		s.visit(n.Value)
		s.visit(n.Target)
	case *syntax.For:
		s.visit(n.Iter)
	case *syntax.CallBlock:
		s.visit(n.Call)
	case *syntax.FilterBlock:
		s.visit(n.Filter)
	case *syntax.With:
		for _, v := range n.Values {
			s.visit(v)
		}
	case *syntax.SetBlock:
		s.visit(n.Target)
	case *syntax.Generation, *syntax.Autoescape, *syntax.Block:
	default:
		syntax.Children(n, s.visit)
	}
}

// visitIf enters an if: its test in this frame, each branch on top of it,
// then all branches merged.
func (s *symbols) visitIf(n *syntax.If) {
	s.visit(n.Test)
	inner := func(visit func(b *symbols)) *symbols {
		b := newSymbols(s.parent, s.fn, s.level)
		b.base = s
		visit(b)
		return b
	}
	body := inner(func(b *symbols) { b.visitAll(n.Body) })
	elifs := inner(func(b *symbols) {
		for _, e := range n.Elif {
			b.visitIf(e)
		}
	})
	other := inner(func(b *symbols) { b.visitAll(n.Else) })
	s.branch([]*symbols{body, elifs, other})
}

// params enters the names of a loop's target.
func (s *symbols) params(target syntax.Node) {
	syntax.Walk(target, func(n syntax.Node) bool {
		if name, ok := n.(*syntax.Name); ok {
			s.param(name.Name)
		}
		return true
	})
}

// reads reports which of names are read in nodes before anything there binds
// them, blocks not looked into.
func reads(nodes []syntax.Node, names ...string) map[string]bool {
	left := map[string]bool{}
	for _, n := range names {
		left[n] = true
	}
	found := map[string]bool{}
	for _, n := range nodes {
		syntax.Walk(n, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Block:
				return false
			case *syntax.Name:
				if !left[n.Name] {
					break
				}
				if n.Ctx == syntax.Load {
					found[n.Name] = true
				} else {
					delete(left, n.Name)
				}
			}
			return true
		})
	}
	return found
}
