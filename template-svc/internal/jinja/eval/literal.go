package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Literals made of constants alone are made once, when the template is
// compiled: values are immutable.

// constant compiles a value that is known.
func constant(v value.Value) exprFunc {
	return func(*frame) (value.Value, error) { return v, nil }
}

// cells compiles a list or tuple; one of constants is made once.
func (c *compiler) cells(items []syntax.Expr, s *scope, wrap func([]value.Value) value.Value) exprFunc {
	parts := make([]exprFunc, len(items))
	fixed := make([]value.Value, len(items))
	allFixed := true
	for i, e := range items {
		parts[i] = c.expr(e, s)
		k, ok := e.(*syntax.Const)
		if allFixed = allFixed && ok; ok {
			fixed[i] = k.Value
		}
	}
	if allFixed {
		return constant(wrap(fixed))
	}
	return func(f *frame) (value.Value, error) {
		if err := f.r.m.Bytes(cellBytes * len(parts)); err != nil {
			return value.Value{}, err
		}
		out := make([]value.Value, len(parts))
		for i, p := range parts {
			v, err := p(f)
			if err != nil {
				return value.Value{}, err
			}
			out[i] = v
		}
		return wrap(out), nil
	}
}

// dict compiles a dict literal. Keys and values are computed pairwise in
// order; an equal key replaces the value and keeps the place.
func (c *compiler) dict(n *syntax.Dict, s *scope) exprFunc {
	keys := make([]exprFunc, len(n.Keys))
	vals := make([]exprFunc, len(n.Keys))
	for i := range n.Keys {
		keys[i] = c.expr(n.Keys[i], s)
		vals[i] = c.expr(n.Values[i], s)
	}
	return func(f *frame) (value.Value, error) {
		if err := f.r.m.Bytes(objectBytes/2 + 2*cellBytes*len(keys)); err != nil {
			return value.Value{}, err
		}
		d := value.NewDict(len(keys))
		for i := range keys {
			k, err := keys[i](f)
			if err != nil {
				return value.Value{}, err
			}
			v, err := vals[i](f)
			if err != nil {
				return value.Value{}, err
			}
			if err := value.ChargeKey(&f.r.m, k); err != nil {
				return value.Value{}, err
			}
			if err := d.Set(k, v); err != nil {
				return value.Value{}, at(err, n)
			}
		}
		return value.OfDict(d), nil
	}
}
