package value

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Equality never fails: values of different types are unequal. It recurses
// over members up to a bound on depth.

// Comparable objects are equal by content, not by identity.
type Comparable interface {
	EqualTo(m *limit.Meter, o Object) (bool, error)
}

// Equal is Python's a == b. It fails only by a limit.
func Equal(m *limit.Meter, a, b Value) (bool, error) { return equal(m, a, b, 0) }

// equal is Equal at a depth of nesting.
func equal(m *limit.Meter, a, b Value, depth int) (bool, error) {
	if a.k != b.k {
		if a.IsNumber() && b.IsNumber() {
			return compareNumbers(a, b) == 0, nil
		}
		return false, nil
	}
	switch a.k {
	case KindUndefined, KindNone:
		return true, nil
	case KindBool, KindInt:
		return a.n == b.n, nil
	case KindBig, KindFloat:
		return compareNumbers(a, b) == 0, nil
	case KindStr, KindBytes:
		return a.n == b.n && a.AsStr() == b.AsStr(), m.Scan(int(a.n))
	case KindList, KindTuple:
		return equalCells(m, a, b, depth)
	case KindDict:
		return equalDicts(m, a.AsDict(), b.AsDict(), depth)
	}
	if c, ok := a.AsObject().(Comparable); ok {
		return c.EqualTo(m, b.AsObject())
	}
	return a.AsObject() == b.AsObject(), nil
}

// equalCells compares lists or tuples member by member.
func equalCells(m *limit.Meter, a, b Value, depth int) (bool, error) {
	if a.n != b.n {
		return false, nil
	}
	if depth >= maxDepth {
		return false, errDepth()
	}
	if err := m.Work(int(a.n)); err != nil || a.p == b.p {
		return true, err
	}
	x, y := a.Cells(), b.Cells()
	for i := range x {
		if ok, err := equal(m, x[i], y[i], depth+1); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// equalDicts compares dicts without regard to order.
func equalDicts(m *limit.Meter, a, b *Dict, depth int) (bool, error) {
	if len(a.entries) != len(b.entries) {
		return false, nil
	}
	if depth >= maxDepth {
		return false, errDepth()
	}
	if err := m.Work(len(a.entries)); err != nil || a == b {
		return true, err
	}
	for i := range a.entries {
		v, ok, err := b.Get(a.entries[i].Key)
		if !ok || err != nil {
			return false, err
		}
		if ok, err := equal(m, a.entries[i].Val, v, depth+1); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// RaiseUndefined is the error of using an undefined value.
func RaiseUndefined(v Value) error {
	u := v.Undef()
	typ := pyerr.Undefined
	if u != nil && u.Exc != "" {
		typ = u.Exc
	}
	return &pyerr.Error{Type: typ, Message: u.Message()}
}
