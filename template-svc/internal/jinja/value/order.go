package value

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Ordering across types is a TypeError; sequences compare at their first
// difference.

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
	case a.k == b.k && (a.k == KindStr || a.k == KindBytes):
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
