package value

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Arithmetic is Python's: bools are ints, ints have no bound, mixed
// operands become floats, and types that do not fit are TypeErrors in
// CPython's words.

// Binary is Python's binary operator op: + - * / // % **.
func Binary(m *limit.Meter, op string, a, b Value) (Value, error) {
	if op == "%" && (a.k == KindStr || a.k == KindBytes) {
		return Printf(m, a, b)
	}
	if a.k == KindUndefined {
		return Value{}, RaiseUndefined(a)
	}
	if a.markup && op == "*" {
		v, _, err := repeat(m, a, b)
		return v, err
	}
	if b.k == KindUndefined {
		return Value{}, RaiseUndefined(b)
	}
	if a.IsNumber() && b.IsNumber() {
		return number(m, op, a, b)
	}
	switch op {
	case "+":
		return concat(m, a, b)
	case "*":
		if v, ok, err := repeat(m, a, b); ok || err != nil {
			return v, err
		}
	}
	return Value{}, unsupported(op, a, b)
}

// unsupported is the TypeError of an operator that no type knows.
func unsupported(op string, a, b Value) error {
	if op == "**" {
		op = "** or pow()"
	}
	return pyerr.Newf(pyerr.Type, "unsupported operand type(s) for %s: '%s' and '%s'", op, a.TypeName(), b.TypeName())
}

// number is an operator on two numbers: float if one is, else int.
func number(m *limit.Meter, op string, a, b Value) (Value, error) {
	if a.k == KindFloat || b.k == KindFloat {
		x, err := ToFloat(a)
		if err != nil {
			return Value{}, err
		}
		y, err := ToFloat(b)
		if err != nil {
			return Value{}, err
		}
		return floatOp(op, x, y)
	}
	if a.k != KindBig && b.k != KindBig {
		if v, ok := smallOp(op, a.AsInt(), b.AsInt()); ok {
			return v, nil
		}
	}
	return bigOp(m, op, a, b)
}

// ToFloat converts an int or float: OverflowError if it does not fit.
func ToFloat(v Value) (float64, error) {
	switch v.k {
	case KindFloat:
		return v.AsFloat(), nil
	case KindBig:
		f, _ := new(big.Float).SetInt(v.AsBig()).Float64()
		if math.IsInf(f, 0) {
			return 0, pyerr.New(pyerr.Overflow, "int too large to convert to float")
		}
		return f, nil
	}
	return float64(v.AsInt()), nil
}

// smallOp does what fits into 64 bits; ok is false for all else, errors
// included.
func smallOp(op string, x, y int64) (v Value, ok bool) {
	switch op {
	case "+":
		s := x + y
		return Int(s), (s > x) == (y > 0)
	case "-":
		s := x - y
		return Int(s), (s < x) == (y > 0)
	case "*":
		hi, lo := bits.Mul64(uint64(max(x, -x)), uint64(max(y, -y)))
		ok := hi == 0 && lo < 1<<63 && x != math.MinInt64 && y != math.MinInt64
		return Int(x * y), ok
	case "//":
		if y == 0 || y == -1 {
			return Value{}, false
		}
		q := x / y
		if x%y != 0 && (x < 0) != (y < 0) {
			q--
		}
		return Int(q), true
	case "%":
		if y == 0 || y == -1 {
			return Value{}, false
		}
		r := x % y
		if r != 0 && (r < 0) != (y < 0) {
			r += y
		}
		return Int(r), true
	case "/":
		const exact = 1 << 53
		if y == 0 || x > exact || x < -exact || y > exact || y < -exact {
			return Value{}, false
		}
		return Float(float64(x) / float64(y)), true
	}
	return Value{}, false
}

// Unary is Python's - or + of v.
func Unary(op string, v Value) (Value, error) {
	switch v.k {
	case KindUndefined:
		return Value{}, RaiseUndefined(v)
	case KindBool, KindInt:
		if op == "+" {
			return Int(v.AsInt()), nil
		}
		if v.AsInt() != math.MinInt64 {
			return Int(-v.AsInt()), nil
		}
		return Big(new(big.Int).Neg(v.AsBig())), nil
	case KindBig:
		if op == "+" {
			return v, nil
		}
		return Big(new(big.Int).Neg(v.AsBig())), nil
	case KindFloat:
		if op == "+" {
			return v, nil
		}
		return Float(-v.AsFloat()), nil
	}
	return Value{}, pyerr.Newf(pyerr.Type, "bad operand type for unary %s: '%s'", op, v.TypeName())
}
