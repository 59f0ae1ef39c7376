package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Tests with arguments, and the names that select and its kin look up at
// run time.

// callableArity is the error of a wrong call of callable, which is Python's builtin.
func callableArity(a *args) error {
	if len(a.kw) > 0 {
		return typeError("callable() takes no keyword arguments")
	}
	return typeError("callable() takes exactly one argument (%d given)", len(a.pos))
}

// testOf gives a test by name, nil if there is none.
func testOf(name string) testFunc {
	if simple := simpleTest(name); simple != nil {
		sig := newSignature("test_"+name, 1, "value")
		return func(_ *run, a *args) (bool, error) {
			if len(a.pos) != 1 || len(a.kw) > 0 {
				if name == "callable" {
					return false, callableArity(a)
				}
				if _, err := sig.bind(a); err != nil {
					return false, err
				}
			}
			return simple(a.pos[0]), nil
		}
	}
	switch name {
	// odd: value % 2 == 1
	case "odd":
		return parity(name, 1)
	case "even":
		return parity(name, 0)
	// divisibleby(num): value % num == 0
	case "divisibleby":
		return divisibleBy
	// filter: the name of a filter
	case "filter":
		return known(name, func(n string) bool { return filterOf(n) != nil })
	// test: the name of a test
	case "test":
		return known(name, func(n string) bool { return testOf(n) != nil })
	// lower: the text of value has cased letters, all lower (or upper)
	case "lower", "upper":
		return caseTest(name)
	// sameas(other): Python's identity
	case "sameas":
		return pairTest("test_sameas", "other", func(_ *run, a, b value.Value) (bool, error) { return a.Same(b), nil })
	// in(seq): Python's in
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
		if err == nil {
			err = r.m.Chars(len(s))
		}
		if err != nil {
			return false, err
		}
		return value.HasCase(s, name == "upper"), nil
	}
}
