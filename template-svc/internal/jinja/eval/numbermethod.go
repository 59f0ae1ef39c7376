package eval

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Bools are ints and share their methods.

// numberAttr gives the data attributes of ints and floats.
func numberAttr(v value.Value, name string) (value.Value, bool) {
	zero := value.Int(0)
	if v.Kind() == value.KindFloat {
		zero = value.Float(0)
	} else {
		v, _ = value.Unary("+", v)
	}
	switch name {
	case "real":
		return v, true
	case "imag":
		return zero, true
	case "numerator":
		return v, v.Kind() != value.KindFloat
	case "denominator":
		return value.Int(1), v.Kind() != value.KindFloat
	}
	return value.Value{}, false
}

// noArgs wraps a method without parameters.
func noArgs(owner, name string, f func(v value.Value) (value.Value, error)) methodFunc {
	return func(_ *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity(owner, name, 0, 0); err != nil {
			return self, err
		}
		return f(self)
	}
}

// intMethods gives a method of int, which bool shares.
func intMethods(name string) methodFunc {
	switch name {
	case "bit_length":
		return noArgs("int", name, func(v value.Value) (value.Value, error) {
			return value.Int(int64(v.AsBig().BitLen())), nil
		})
	case "bit_count":
		return noArgs("int", name, func(v value.Value) (value.Value, error) {
			n := 0
			for _, w := range v.AsBig().Bits() {
				n += bits.OnesCount(uint(w))
			}
			return value.Int(int64(n)), nil
		})
	case "to_bytes":
		return intToBytes
	case "from_bytes":
		return intFromBytes
	case "conjugate":
		return noArgs("int", name, func(v value.Value) (value.Value, error) { return value.Unary("+", v) })
	case "as_integer_ratio":
		return noArgs("int", name, func(v value.Value) (value.Value, error) {
			v, err := value.Unary("+", v)
			return value.Tuple([]value.Value{v, value.Int(1)}), err
		})
	}
	return nil
}

// floatMethods gives a method of float.
func floatMethods(name string) methodFunc {
	switch name {
	case "is_integer":
		return noArgs("float", name, func(v value.Value) (value.Value, error) {
			f := v.AsFloat()
			return value.Bool(f == math.Trunc(f) && !math.IsInf(f, 0)), nil
		})
	case "conjugate":
		return noArgs("float", name, func(v value.Value) (value.Value, error) { return v, nil })
	case "hex":
		return noArgs("float", name, func(v value.Value) (value.Value, error) {
			return value.Str(floatHex(v.AsFloat())), nil
		})
	case "fromhex":
		return floatFromHex
	case "as_integer_ratio":
		return noArgs("float", name, floatRatio)
	}
	return nil
}

// floatRatio is float.as_integer_ratio: the exact quotient.
func floatRatio(v value.Value) (value.Value, error) {
	f := v.AsFloat()
	switch {
	case math.IsInf(f, 0):
		return v, pyerr.New(pyerr.Overflow, "cannot convert Infinity to integer ratio")
	case math.IsNaN(f):
		return v, valueError("cannot convert NaN to integer ratio")
	}
	q := new(big.Rat).SetFloat64(f)
	return value.Tuple([]value.Value{value.Big(q.Num()), value.Big(q.Denom())}), nil
}

// floatHex is float.hex: thirteen hexadecimal digits and a decimal exponent
// without leading zeros.
func floatHex(f float64) string {
	if f == 0 || math.IsInf(f, 0) || math.IsNaN(f) {
		s := value.FloatRepr(f)
		if f == 0 {
			s = strings.Replace(s, "0.0", "0x0.0p+0", 1)
		}
		return s
	}
	s := strconv.FormatFloat(f, 'x', 13, 64)
	p := strings.IndexByte(s, 'p')
	exp, _ := strconv.Atoi(s[p+1:])
	if exp < 0 {
		return s[:p] + "p" + strconv.Itoa(exp)
	}
	return s[:p] + "p+" + strconv.Itoa(exp)
}
