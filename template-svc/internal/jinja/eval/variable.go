package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// A variable is read from a slot some records up, or straight from the
// render's variables if no frame around binds it.

// getter reads a variable; the zero Value stands for "not set".
func getter(s *scope, r ref) func(f *frame) value.Value {
	slot := r.slot
	switch n := hops(s.sym.fn, r); n {
	case 0:
		return func(f *frame) value.Value { return f.slots[slot] }
	case 1:
		return func(f *frame) value.Value { return f.up.slots[slot] }
	default:
		return func(f *frame) value.Value {
			for range n {
				f = f.up
			}
			return f.slots[slot]
		}
	}
}

// isMissing tells "not set" from undefined values, which have a reason.
func isMissing(v value.Value) bool { return v.IsUndefined() && v.Undef() == nil }

// direct reports whether a name is read straight from the render's variables.
func direct(s *symbols, name string) bool {
	for f := s; f != nil; f = f.parent {
		r, ok := f.own(name)
		if !ok {
			continue
		}
		for b := f; b != nil; b = b.base {
			if i, ok := b.at[r]; ok {
				return b.loads[i].do == loadResolve && !f.stored(name)
			}
		}
		return false
	}
	return false
}

// name compiles the reading of a variable.
func (c *compiler) name(n *syntax.Name, s *scope) exprFunc {
	missing := value.Missing(n.Name)
	if direct(s.sym, n.Name) {
		i := c.global(n.Name)
		return func(f *frame) (value.Value, error) {
			if v := f.r.globals[i]; !isMissing(v) {
				return v, nil
			}
			return missing, nil
		}
	}
	r, ok := s.sym.find(n.Name)
	if !ok {
		panic("unresolved name " + n.Name)
	}
	if hops(s.sym.fn, r) == 0 {
		slot := r.slot
		return func(f *frame) (value.Value, error) {
			if v := f.slots[slot]; !isMissing(v) {
				return v, nil
			}
			return missing, nil
		}
	}
	get := getter(s, r)
	return func(f *frame) (value.Value, error) {
		if v := get(f); !isMissing(v) {
			return v, nil
		}
		return missing, nil
	}
}

// setter compiles the binding of one name; top-level bindings are exported.
func (c *compiler) setter(name string, s *scope) func(f *frame, v value.Value) {
	r, _ := s.sym.find(name)
	slot := r.slot
	if s.top && c.exports {
		i := c.global(name)
		return func(f *frame, v value.Value) {
			f.slots[slot] = v
			f.r.globals[i] = v
		}
	}
	return func(f *frame, v value.Value) { f.slots[slot] = v }
}
