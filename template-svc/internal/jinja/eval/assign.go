package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Targets of set, for and with are names, ns.attr or tuples of targets.
// Binding a tuple takes exactly as many members as it has targets.

// binder compiles the binding of a target to a value.
func (c *compiler) binder(target syntax.Expr, s *scope) func(f *frame, v value.Value) error {
	switch t := target.(type) {
	case *syntax.Name:
		set := c.setter(t.Name, s)
		return func(f *frame, v value.Value) error {
			set(f, v)
			return nil
		}
	case *syntax.NSRef:
		get := c.name(&syntax.Name{Pos: t.Pos, Name: t.Name}, s)
		return func(f *frame, v value.Value) error {
			ns, err := get(f)
			if err != nil {
				return err
			}
			return setAttr(ns, t.Attr, v)
		}
	case *syntax.Tuple:
		return c.unpack(t, s)
	}
	c.fail(target, "can't assign to expression")
	return nil
}

// setAttr sets an attribute of a namespace.
func setAttr(ns value.Value, attr string, v value.Value) error {
	o, ok := ns.AsObject().(*namespace)
	if !ok {
		return errNoItems(ns)
	}
	o.attrs.SetStr(attr, v)
	return nil
}

// errNoItems is what a set block raises, which does not ask for a namespace before it assigns. A dict takes the item in
// Python, and the change is seen wherever the dict is; values do not change here.
func errNoItems(v value.Value) error {
	switch v.Kind() {
	case value.KindDict:
		return errNoNamespace()
	case value.KindList:
		return pyerr.New(pyerr.Type, "list indices must be integers or slices, not str")
	case value.KindUndefined:
		return pyerr.New(pyerr.Type, "'_MissingType' object does not support item assignment")
	}
	return pyerr.Newf(pyerr.Type, "'%s' object does not support item assignment", v.TypeName())
}

// errNoNamespace is the refusal of set x.y where x is no namespace.
func errNoNamespace() error {
	return pyerr.New(pyerr.TemplateRuntime, "cannot assign attribute on non-namespace object")
}

// unpack binds the members of a tuple target.
func (c *compiler) unpack(t *syntax.Tuple, s *scope) func(f *frame, v value.Value) error {
	parts := make([]func(*frame, value.Value) error, len(t.Items))
	for i, e := range t.Items {
		parts[i] = c.binder(e, s)
	}
	return func(f *frame, v value.Value) error {
		cells, err := unpackCells(v, len(parts))
		if err != nil {
			return err
		}
		for i, bind := range parts {
			if err := bind(f, cells[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// unpackCells gives exactly n members of v: ValueError for more or fewer.
func unpackCells(v value.Value, n int) ([]value.Value, error) {
	var cells []value.Value
	more := false
	if k := v.Kind(); k == value.KindTuple || k == value.KindList {
		cells = v.Cells()
		more = len(cells) > n
	} else {
		it, err := v.Iter()
		if err != nil {
			return nil, pyerr.Newf(pyerr.Type, "cannot unpack non-iterable %s object", v.TypeName())
		}
		for !more {
			x, ok, err := it.Next()
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			more = len(cells) == n
			cells = append(cells, x)
		}
	}
	if more {
		return nil, pyerr.Newf(pyerr.Value, "too many values to unpack (expected %d)", n)
	}
	if len(cells) < n {
		return nil, pyerr.Newf(pyerr.Value, "not enough values to unpack (expected %d, got %d)", n, len(cells))
	}
	return cells, nil
}

// namespaces gives a check that every ns.attr of a target is on a namespace,
// which Jinja2 makes before it computes the value.
func (c *compiler) namespaces(target syntax.Expr, s *scope) func(f *frame) error {
	var gets []exprFunc
	syntax.Walk(target, func(n syntax.Node) bool {
		if t, ok := n.(*syntax.NSRef); ok {
			gets = append(gets, c.name(&syntax.Name{Pos: t.Pos, Name: t.Name}, s))
		}
		return true
	})
	if gets == nil {
		return nil
	}
	return func(f *frame) error {
		for _, get := range gets {
			v, err := get(f)
			if err != nil {
				return err
			}
			if _, ok := v.AsObject().(*namespace); !ok {
				return errNoNamespace()
			}
		}
		return nil
	}
}

// set compiles set target = value; a single name, the usual case, needs no
// checks.
func (c *compiler) set(n *syntax.Set, s *scope) stmtFunc {
	expr := c.expr(n.Value, s)
	if name, ok := n.Target.(*syntax.Name); ok {
		set := c.setter(name.Name, s)
		return func(f *frame) (control, error) {
			v, err := expr(f)
			if err != nil {
				return goOn, at(err, n)
			}
			set(f, v)
			return goOn, nil
		}
	}
	check := c.namespaces(n.Target, s)
	bind := c.binder(n.Target, s)
	return func(f *frame) (control, error) {
		if check != nil {
			if err := check(f); err != nil {
				return goOn, at(err, n)
			}
		}
		v, err := expr(f)
		if err == nil {
			err = bind(f, v)
		}
		if err != nil {
			return goOn, at(err, n)
		}
		return goOn, nil
	}
}
