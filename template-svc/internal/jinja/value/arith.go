package value

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Binary is Python's binary operator op: + - * / // % **.
func Binary(m *limit.Meter, op string, a, b Value) (Value, error) {
	if op == "%" && a.k == KindStr {
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
	if a.k != KindStr && a.k != KindList && a.k != KindTuple {
		a, b = b, a
	}
	if a.k != KindStr && a.k != KindList && a.k != KindTuple {
		return Value{}, false, nil
	}
	if !b.IsInt() {
		return Value{}, false, pyerr.Newf(pyerr.Type, "can't multiply sequence by non-int of type '%s'", b.TypeName())
	}
	if b.k == KindBig {
		return Value{}, false, pyerr.New(pyerr.Overflow, "cannot fit 'int' into an index-sized integer")
	}
	n := int(max(b.AsInt(), 0))
	if a.k == KindStr {
		if err := m.Product(n, int(a.n)); err != nil {
			return Value{}, false, err
		}
		return Str(repeatString(a.AsStr(), n)).WithMarkup(a.markup), true, nil
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

// bigOp is an operator on ints of any size. What it may cost is charged
// before: the size of the result and the work of long multiplication.
func bigOp(m *limit.Meter, op string, a, b Value) (Value, error) {
	x, y := a.AsBig(), b.AsBig()
	if err := m.Bits(int64(max(x.BitLen(), y.BitLen()))); err != nil {
		return Value{}, err
	}
	// A product or quotient of n words costs up to n² word operations.
	if w := (x.BitLen() + 63) / 64 * ((y.BitLen() + 63) / 64); w > 64 {
		if err := m.Work(w / 64); err != nil {
			return Value{}, err
		}
	}
	z := new(big.Int)
	switch op {
	case "+":
		return Big(z.Add(x, y)), nil
	case "-":
		return Big(z.Sub(x, y)), nil
	case "*":
		if err := m.Bits(int64(x.BitLen() + y.BitLen())); err != nil {
			return Value{}, err
		}
		return Big(z.Mul(x, y)), nil
	case "/":
		return divide(x, y)
	case "**":
		return power(m, x, y)
	}
	if y.Sign() == 0 {
		if op == "//" {
			return Value{}, pyerr.New(pyerr.ZeroDivision, "integer division or modulo by zero")
		}
		return Value{}, pyerr.New(pyerr.ZeroDivision, "integer modulo by zero")
	}
	r := new(big.Int)
	z.QuoRem(x, y, r)
	if r.Sign() != 0 && (r.Sign() < 0) != (y.Sign() < 0) {
		z.Sub(z, big.NewInt(1))
		r.Add(r, y)
	}
	if op == "//" {
		return Big(z), nil
	}
	return Big(r), nil
}

// divide is int / int, rounded once from the exact quotient.
func divide(x, y *big.Int) (Value, error) {
	if y.Sign() == 0 {
		return Value{}, pyerr.New(pyerr.ZeroDivision, "division by zero")
	}
	f, _ := new(big.Rat).SetFrac(x, y).Float64()
	if math.IsInf(f, 0) {
		return Value{}, pyerr.New(pyerr.Overflow, "integer division result too large for a float")
	}
	return Float(f), nil
}

// power is int ** int: exact for an exponent from 0 on, else a float. Its
// size is checked before it is computed.
func power(m *limit.Meter, x, y *big.Int) (Value, error) {
	if y.Sign() < 0 {
		fx, err := ToFloat(Big(x))
		if err != nil {
			return Value{}, err
		}
		fy, err := ToFloat(Big(y))
		if err != nil {
			return Value{}, err
		}
		return floatOp("**", fx, fy)
	}
	if x.BitLen() > 1 {
		if !y.IsInt64() || y.Int64() > 1<<40 {
			return Value{}, &limit.Error{Kind: limit.Power, Max: m.Limits().PowerBits}
		}
		if err := m.Bits(y.Int64() * int64(x.BitLen())); err != nil {
			return Value{}, err
		}
		if err := m.Work(int(y.Int64()) * x.BitLen() / 4096); err != nil {
			return Value{}, err
		}
	} else if x.Sign() < 0 {
		y = big.NewInt(2 - int64(y.Bit(0)))
	}
	return Big(new(big.Int).Exp(x, y, nil)), nil
}

// floatOp is an operator on two floats.
func floatOp(op string, x, y float64) (Value, error) {
	switch op {
	case "+":
		return Float(x + y), nil
	case "-":
		return Float(x - y), nil
	case "*":
		return Float(x * y), nil
	case "**":
		return floatPower(x, y)
	}
	if y == 0 {
		text := map[string]string{"/": "float division by zero", "//": "float floor division by zero", "%": "float modulo"}
		return Value{}, pyerr.New(pyerr.ZeroDivision, text[op])
	}
	if op == "/" {
		return Float(x / y), nil
	}
	div, mod := floatDivMod(x, y)
	if op == "//" {
		return Float(div), nil
	}
	return Float(mod), nil
}

// floatDivMod is CPython's float divmod: the remainder has the divisor's sign.
func floatDivMod(x, y float64) (div, mod float64) {
	mod = math.Mod(x, y)
	div = (x - mod) / y
	if mod != 0 {
		if (y < 0) != (mod < 0) {
			mod += y
			div--
		}
	} else {
		mod = math.Copysign(0, y)
	}
	if div == 0 {
		return math.Copysign(0, x/y), mod
	}
	floor := math.Floor(div)
	if div-floor > 0.5 {
		floor++
	}
	return floor, mod
}

// floatPower is float ** float with Python's faults.
func floatPower(x, y float64) (Value, error) {
	if x == 0 && y < 0 {
		return Value{}, pyerr.New(pyerr.ZeroDivision, "0.0 cannot be raised to a negative power")
	}
	f := powFloat(x, y)
	if math.IsInf(f, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		return Value{}, pyerr.New(pyerr.Overflow, "(34, 'Numerical result out of range')")
	}
	if math.IsNaN(f) && !math.IsNaN(x) && !math.IsNaN(y) {
		// Python gives a complex number here, which the engine does not have.
		return Value{}, pyerr.New(pyerr.Value, "negative number cannot be raised to a fractional power")
	}
	return Float(f), nil
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
