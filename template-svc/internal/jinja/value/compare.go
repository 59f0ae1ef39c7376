package value

import (
	"math"
	"math/big"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Comparable objects are equal by content, not by identity.
type Comparable interface{ EqualTo(o Object) bool }

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
	case KindStr:
		return a.n == b.n && a.AsStr() == b.AsStr(), m.Scan(int(a.n))
	case KindList, KindTuple:
		return equalCells(m, a, b, depth)
	case KindDict:
		return equalDicts(m, a.AsDict(), b.AsDict(), depth)
	}
	if c, ok := a.AsObject().(Comparable); ok {
		return c.EqualTo(b.AsObject()), nil
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

// unordered is the result of comparing with NaN.
const unordered = 2

// compareNumbers gives -1, 0, 1 or unordered; ints and floats compare exactly.
func compareNumbers(a, b Value) int {
	switch {
	case a.k == KindFloat && b.k == KindFloat:
		return compareFloats(a.AsFloat(), b.AsFloat())
	case a.k == KindFloat:
		if c := compareNumbers(b, a); c != unordered {
			return -c
		}
		return unordered
	case b.k == KindFloat:
		return compareIntFloat(a, b.AsFloat())
	case a.k == KindBig || b.k == KindBig:
		return a.AsBig().Cmp(b.AsBig())
	}
	x, y := a.AsInt(), b.AsInt()
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// compareFloats orders two floats.
func compareFloats(x, y float64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	case x == y:
		return 0
	}
	return unordered
}

// compareIntFloat orders an int and a float by their exact values.
func compareIntFloat(a Value, f float64) int {
	switch {
	case math.IsNaN(f):
		return unordered
	case math.IsInf(f, 1):
		return -1
	case math.IsInf(f, -1):
		return 1
	}
	if a.k != KindBig && a.AsInt() < 1<<53 && a.AsInt() > -1<<53 {
		return compareFloats(float64(a.AsInt()), f)
	}
	x := new(big.Float).SetPrec(0).SetInt(a.AsBig())
	return x.Cmp(big.NewFloat(f))
}

// Order says which comparison Compare makes.
type Order uint8

// The orders.
const (
	Less Order = iota
	LessEqual
	Greater
	GreaterEqual
)

// sign is the operator in messages.
func (o Order) sign() string { return [...]string{"<", "<=", ">", ">="}[o] }

// holds reports whether a result of a comparison satisfies the order.
func (o Order) holds(c int) bool {
	switch o {
	case Less:
		return c == -1
	case LessEqual:
		return c == -1 || c == 0
	case Greater:
		return c == 1
	}
	return c == 1 || c == 0
}

// Compare is Python's a < b and the like: TypeError across types.
func Compare(m *limit.Meter, o Order, a, b Value) (bool, error) {
	return compare(m, o, a, b, 0)
}

// compare is Compare at a depth of nesting.
func compare(m *limit.Meter, o Order, a, b Value, depth int) (bool, error) {
	switch {
	case a.IsNumber() && b.IsNumber():
		return o.holds(compareNumbers(a, b)), nil
	case a.k == KindStr && b.k == KindStr:
		return o.holds(strings.Compare(a.AsStr(), b.AsStr())), m.Scan(int(min(a.n, b.n)))
	case a.k == b.k && (a.k == KindList || a.k == KindTuple):
		return compareCells(m, o, a.Cells(), b.Cells(), depth)
	case a.k == KindUndefined:
		return false, RaiseUndefined(a)
	case b.k == KindUndefined:
		return false, RaiseUndefined(b)
	}
	return false, pyerr.Newf(pyerr.Type, "'%s' not supported between instances of '%s' and '%s'",
		o.sign(), a.TypeName(), b.TypeName())
}

// compareCells orders lists or tuples by their first differing members.
func compareCells(m *limit.Meter, o Order, x, y []Value, depth int) (bool, error) {
	if depth >= maxDepth {
		return false, errDepth()
	}
	n := min(len(x), len(y))
	if err := m.Work(n); err != nil {
		return false, err
	}
	for i := range n {
		same, err := equal(m, x[i], y[i], depth+1)
		if err != nil {
			return false, err
		}
		if !same {
			return compare(m, o, x[i], y[i], depth+1)
		}
	}
	return o.holds(compareNumbers(Int(int64(len(x))), Int(int64(len(y))))), nil
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

// Contains is Python's item in container.
func Contains(m *limit.Meter, item, container Value) (bool, error) {
	switch container.k {
	case KindStr:
		if item.k != KindStr {
			return false, pyerr.Newf(pyerr.Type,
				"'in <string>' requires string as left operand, not %s", item.TypeName())
		}
		return strings.Contains(container.AsStr(), item.AsStr()), m.Scan(int(container.n))
	case KindDict:
		if err := ChargeKey(m, item); err != nil {
			return false, err
		}
		_, ok, err := container.AsDict().Get(item)
		return ok, err
	case KindList, KindTuple:
		return containsCell(m, item, container.Cells())
	case KindUndefined:
		return false, nil
	case KindObject:
		if c, ok := container.AsObject().(Container); ok {
			return c.Contains(m, item)
		}
	}
	it, err := container.Iter()
	if err != nil {
		return false, pyerr.Newf(pyerr.Type, "argument of type '%s' is not iterable", container.TypeName())
	}
	for {
		v, ok, err := it.Next()
		if !ok || err != nil {
			return false, err
		}
		if err := m.Step(); err != nil {
			return false, err
		}
		if same, err := Equal(m, item, v); same || err != nil {
			return same, err
		}
	}
}

// containsCell reports whether a member equals item or is the very same.
func containsCell(m *limit.Meter, item Value, cells []Value) (bool, error) {
	if err := m.Work(len(cells)); err != nil {
		return false, err
	}
	for _, c := range cells {
		if same, err := Equal(m, item, c); same || err != nil || c.Same(item) {
			return err == nil, err
		}
	}
	return false, nil
}
