package value

import (
	"math"
	"math/big"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Ints beyond 64 bits. Their size is bounded, and operations whose cost is
// not linear are charged for it.

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
