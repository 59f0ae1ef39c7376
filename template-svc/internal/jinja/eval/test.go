package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Tests give a bool. Those that need no arguments are compiled to a
// function of the value alone.

// testFunc is a test; the value comes first among the arguments.
type testFunc func(r *run, a *args) (bool, error)

// test compiles "x is name(...)".
func (c *compiler) test(n *syntax.Test, s *scope) func(f *frame) (bool, error) {
	if simple := simpleTest(n.Name); simple != nil && noArguments(&n.Args) {
		expr := c.expr(n.Node, s)
		return func(f *frame) (bool, error) {
			v, err := expr(f)
			return simple(v), err
		}
	}
	fn := testOf(n.Name)
	if fn == nil {
		if !s.soft {
			c.fail(n, "No test named %s.", value.ReprString(n.Name))
		}
		fn = func(*run, *args) (bool, error) {
			return false, pyerr.Newf(pyerr.TemplateRuntime, "No test named %s found.", value.ReprString(n.Name))
		}
	}
	expr := c.expr(n.Node, s)
	list := c.args(&n.Args, s)
	return func(f *frame) (bool, error) {
		v, err := expr(f)
		if err != nil {
			return false, err
		}
		base := len(f.r.stack)
		f.r.stack = append(f.r.stack, v)
		a := f.r.newArgs()
		ok := false
		if err = list.eval(f, base, a); err == nil {
			ok, err = fn(f.r, a)
		}
		f.r.endArgs(a, base)
		return ok, at(err, n)
	}
}

// noArguments reports whether a call gives no arguments.
func noArguments(a *syntax.Args) bool {
	return len(a.Pos) == 0 && len(a.Kw) == 0 && a.Star == nil && a.StarStar == nil
}

// simpleTest gives a test that has no arguments and cannot fail.
func simpleTest(name string) func(v value.Value) bool {
	switch name {
	// defined
	case "defined":
		return func(v value.Value) bool { return !v.IsUndefined() }
	// undefined
	case "undefined":
		return value.Value.IsUndefined
	// none
	case "none":
		return value.Value.IsNone
	// boolean
	case "boolean":
		return func(v value.Value) bool { return v.Kind() == value.KindBool }
	// true: the constant, not truth
	case "true":
		return func(v value.Value) bool { return v.Kind() == value.KindBool && v.AsBool() }
	// false: the constant, not falsehood
	case "false":
		return func(v value.Value) bool { return v.Kind() == value.KindBool && !v.AsBool() }
	// integer: bools are none
	case "integer":
		return func(v value.Value) bool { return v.IsInt() && v.Kind() != value.KindBool }
	// float
	case "float":
		return func(v value.Value) bool { return v.Kind() == value.KindFloat }
	// number: bools are some
	case "number":
		return value.Value.IsNumber
	// string: Markup included
	case "string":
		return value.Value.IsStr
	// mapping: a dict
	case "mapping":
		return func(v value.Value) bool { return v.Kind() == value.KindDict }
	// iterable: undefined is
	case "iterable":
		return value.Value.CanIter
	// sequence: a length and items: strings, dicts and undefined are
	case "sequence":
		return isSequence
	// callable: undefined is
	case "callable":
		return isCallable
	// escaped: Markup
	case "escaped":
		return value.Value.IsMarkup
	}
	return nil
}

// isSequence is Jinja2's test: a length and item access. Undefined has
// both.
func isSequence(v value.Value) bool {
	switch v.Kind() {
	case value.KindUndefined, value.KindStr, value.KindBytes, value.KindList, value.KindTuple, value.KindDict:
		return true
	case value.KindObject:
		_, sized := v.AsObject().(value.Sized)
		_, indexed := v.AsObject().(value.Indexed)
		return sized && indexed
	}
	return false
}

// isCallable is Python's callable(); undefined has a __call__ that raises.
func isCallable(v value.Value) bool {
	if v.IsUndefined() {
		return true
	}
	_, ok := v.AsObject().(callable)
	return ok
}
