package value

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Strings, lists and tuples add and repeat; the results are charged before
// they are made.

// cellBytes is the size of one list cell as charged.
const cellBytes = 24

// concat is + of strings, lists and tuples; Markup escapes a plain operand.
func concat(m *limit.Meter, a, b Value) (Value, error) {
	switch {
	case a.k == KindStr && b.k == KindStr:
		x, y := a.AsStr(), b.AsStr()
		if a.markup != b.markup {
			if a.markup {
				y = Escape(y)
			} else {
				x = Escape(x)
			}
		}
		if err := m.Bytes(len(x) + len(y)); err != nil {
			return Value{}, err
		}
		return Str(x + y).WithMarkup(a.markup || b.markup), nil
	case a.k == b.k && (a.k == KindList || a.k == KindTuple):
		x, y := a.Cells(), b.Cells()
		if err := m.Product(len(x)+len(y), cellBytes); err != nil {
			return Value{}, err
		}
		out := append(append(make([]Value, 0, len(x)+len(y)), x...), y...)
		if a.k == KindTuple {
			return Tuple(out), nil
		}
		return List(out), nil
	case a.k == KindBytes && b.k == KindBytes:
		if err := m.Product(int(a.n)+int(b.n), 1); err != nil {
			return Value{}, err
		}
		return Bytes(a.AsStr() + b.AsStr()), nil
	case a.k == KindBytes:
		return Value{}, pyerr.Newf(pyerr.Type, "can't concat %s to bytes", b.TypeName())
	case a.k == KindStr, a.k == KindList, a.k == KindTuple:
		if a.markup {
			break
		}
		name := a.TypeName()
		return Value{}, pyerr.Newf(pyerr.Type, `can only concatenate %s (not "%s") to %s`, name, b.TypeName(), name)
	}
	return Value{}, unsupported("+", a, b)
}

// repeat is sequence * int either way round; ok is false if neither operand is
// a sequence.
func repeat(m *limit.Meter, a, b Value) (Value, bool, error) {
	if a.markup || b.markup {
		count := b
		if b.markup && !a.markup {
			count = a
		}
		if !count.IsInt() {
			return Value{}, false, pyerr.Newf(pyerr.Type, "'%s' object cannot be interpreted as an integer", count.TypeName())
		}
	}
	if !a.isSequence() {
		a, b = b, a
	}
	if !a.isSequence() {
		return Value{}, false, nil
	}
	if !b.IsInt() {
		return Value{}, false, pyerr.Newf(pyerr.Type, "can't multiply sequence by non-int of type '%s'", b.TypeName())
	}
	if b.k == KindBig {
		return Value{}, false, pyerr.New(pyerr.Overflow, "cannot fit 'int' into an index-sized integer")
	}
	n := int(max(b.AsInt(), 0))
	if a.k == KindStr || a.k == KindBytes {
		if err := m.Product(n, int(a.n)); err != nil {
			return Value{}, false, err
		}
		out := Str(repeatString(a.AsStr(), n)).WithMarkup(a.markup)
		out.k = a.k
		return out, true, nil
	}
	if err := m.Product(n, cellBytes*int(a.n)); err != nil {
		return Value{}, false, err
	}
	var out []Value
	if a.n > 0 {
		out = make([]Value, 0, n*int(a.n))
		for range n {
			out = append(out, a.Cells()...)
		}
	}
	if a.k == KindTuple {
		return Tuple(out), true, nil
	}
	return List(out), true, nil
}

// isSequence reports what can be repeated.
func (v Value) isSequence() bool {
	return v.k == KindStr || v.k == KindList || v.k == KindTuple || v.k == KindBytes
}

// repeatString is s * n for a length that was charged.
func repeatString(s string, n int) string {
	if n == 0 || s == "" {
		return ""
	}
	b := make([]byte, 0, n*len(s))
	for range n {
		b = append(b, s...)
	}
	return string(b)
}
