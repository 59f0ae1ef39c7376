package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// testFunc is a test; the value comes first among the arguments.
type testFunc func(r *run, a *args) (bool, error)

// test compiles "x is name(...)".
func (c *compiler) test(n *syntax.Test, s *scope) func(f *frame) (bool, error) {
	expr := c.expr(n.Node, s)
	if simple := simpleTest(n.Name); simple != nil && noArguments(&n.Args) {
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
	case "defined":
		return func(v value.Value) bool { return !v.IsUndefined() }
	case "undefined":
		return value.Value.IsUndefined
	case "none":
		return value.Value.IsNone
	case "boolean":
		return func(v value.Value) bool { return v.Kind() == value.KindBool }
	case "true":
		return func(v value.Value) bool { return v.Kind() == value.KindBool && v.AsBool() }
	case "false":
		return func(v value.Value) bool { return v.Kind() == value.KindBool && !v.AsBool() }
	case "integer":
		return func(v value.Value) bool { return v.IsInt() && v.Kind() != value.KindBool }
	case "float":
		return func(v value.Value) bool { return v.Kind() == value.KindFloat }
	case "number":
		return value.Value.IsNumber
	case "string":
		return value.Value.IsStr
	case "mapping":
		return func(v value.Value) bool { return v.Kind() == value.KindDict }
	case "iterable":
		return value.Value.CanIter
	case "sequence":
		return isSequence
	case "callable":
		return isCallable
	case "escaped":
		return value.Value.IsMarkup
	}
	return nil
}

// isSequence is Jinja2's test: a length and item access. Undefined has
// both.
func isSequence(v value.Value) bool {
	switch v.Kind() {
	case value.KindUndefined, value.KindStr, value.KindList, value.KindTuple, value.KindDict:
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

// testName is the Python name of a test's function in argument errors.
func testName(name string) string {
	switch name {
	case "callable":
		return name
	}
	return "test_" + name
}

// testOf gives a test by name, nil if there is none.
func testOf(name string) testFunc {
	if simple := simpleTest(name); simple != nil {
		sig := newSignature(testName(name), 1, "value")
		return func(_ *run, a *args) (bool, error) {
			if len(a.pos) != 1 || len(a.kw) > 0 {
				if _, err := sig.bind(a); err != nil {
					return false, err
				}
			}
			return simple(a.pos[0]), nil
		}
	}
	switch name {
	case "odd":
		return parity(name, 1)
	case "even":
		return parity(name, 0)
	case "divisibleby":
		return divisibleBy
	case "filter":
		return known(name, func(n string) bool { return filterOf(n) != nil })
	case "test":
		return known(name, func(n string) bool { return testOf(n) != nil })
	case "lower", "upper":
		return caseTest(name)
	case "sameas":
		return pairTest("test_sameas", "other", func(_ *run, a, b value.Value) (bool, error) { return a.Same(b), nil })
	case "in":
		return pairTest("test_in", "seq", func(r *run, a, b value.Value) (bool, error) {
			return value.Contains(&r.m, a, b)
		})
	}
	return operatorTest(name)
}

// operatorTest gives the tests that are Python operators.
func operatorTest(name string) testFunc {
	op := ""
	switch name {
	case "==", "eq", "equalto":
		op = "eq"
	case "!=", "ne":
		op = "ne"
	case ">", "gt", "greaterthan":
		op = "gt"
	case ">=", "ge":
		op = "gteq"
	case "<", "lt", "lessthan":
		op = "lt"
	case "<=", "le":
		op = "lteq"
	default:
		return nil
	}
	short := map[string]string{"gteq": "ge", "lteq": "le"}[op]
	if short == "" {
		short = op
	}
	return func(r *run, a *args) (bool, error) {
		if len(a.kw) > 0 {
			return false, typeError("_operator.%s() takes no keyword arguments", short)
		}
		if len(a.pos) != 2 {
			return false, typeError("%s expected 2 arguments, got %d", short, len(a.pos))
		}
		return relation(&r.m, op, a.pos[0], a.pos[1])
	}
}

// pairTest makes a test of a value and one argument.
func pairTest(name, second string, f func(r *run, a, b value.Value) (bool, error)) testFunc {
	sig := newSignature(name, 2, "value", second)
	return func(r *run, a *args) (bool, error) {
		b, err := sig.bind(a)
		if err != nil {
			return false, err
		}
		return f(r, b[0], b[1])
	}
}

// parity makes odd or even, with Python's % and its faults.
func parity(name string, rest int64) testFunc {
	sig := newSignature("test_"+name, 1, "value")
	return func(r *run, a *args) (bool, error) {
		b, err := sig.bind(a)
		if err != nil {
			return false, err
		}
		v, err := value.Binary(&r.m, "%", b[0], value.Int(2))
		if err != nil {
			return false, err
		}
		return value.Equal(&r.m, v, value.Int(rest))
	}
}

// divisibleBy is divisibleby(num).
func divisibleBy(r *run, a *args) (bool, error) {
	b, err := divisibleSignature.bind(a)
	if err != nil {
		return false, err
	}
	v, err := value.Binary(&r.m, "%", b[0], b[1])
	if err != nil {
		return false, err
	}
	return value.Equal(&r.m, v, value.Int(0))
}

var divisibleSignature = newSignature("test_divisibleby", 2, "value", "num")

// known tests whether a value names a filter or test.
func known(name string, has func(string) bool) testFunc {
	sig := newSignature("test_"+name, 1, "value")
	sig.hidden = 1
	return func(r *run, a *args) (bool, error) {
		b, err := sig.bind(a)
		if err != nil {
			return false, err
		}
		if !b[0].IsStr() {
			if err := value.ChargeKey(&r.m, b[0]); err != nil {
				return false, err
			}
			_, _, err := value.NewDict(0).Get(b[0])
			return false, err
		}
		return has(b[0].AsStr()), nil
	}
}

// caseTest makes lower or upper: of the text of any value.
func caseTest(name string) testFunc {
	sig := newSignature("test_"+name, 1, "value")
	return func(r *run, a *args) (bool, error) {
		b, err := sig.bind(a)
		if err != nil {
			return false, err
		}
		s, err := value.StrOf(&r.m, b[0])
		return value.HasCase(s, name == "upper"), err
	}
}
