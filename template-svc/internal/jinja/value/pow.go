package value

import (
	"math"
	"math/big"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Powers of floats must round as the C library's do, or prompts that print
// them differ in the last digit.

// powPrec is the working precision of powFloat in bits: enough that rounding to
// 53 bits gives the nearest float, as a good C library does.
const powPrec = 256

// powFloat is x ** y of floats, correctly rounded for results in range; Go's
// math.Pow may be off by some last places.
func powFloat(x, y float64) float64 {
	rough := math.Pow(x, y)
	if rough == 0 || math.IsInf(rough, 0) || math.IsNaN(rough) || math.Abs(rough) < 1e-300 {
		return rough
	}
	whole, frac := math.Modf(math.Abs(y))
	if whole >= 1<<53 {
		return rough
	}
	base := new(big.Float).SetPrec(powPrec).SetFloat64(math.Abs(x))
	result := new(big.Float).SetPrec(powPrec).SetInt64(1)
	square := new(big.Float).Copy(base)
	for n := uint64(whole); n > 0; n >>= 1 {
		if n&1 == 1 {
			result.Mul(result, square)
		}
		if n > 1 {
			square.Mul(square, square)
		}
	}
	// The fraction is a sum of powers of one half: each is one more square root.
	root := new(big.Float).Copy(base)
	for frac > 0 {
		root.Sqrt(root)
		if frac *= 2; frac >= 1 {
			result.Mul(result, root)
			frac--
		}
	}
	if y < 0 {
		result.Quo(new(big.Float).SetPrec(powPrec).SetInt64(1), result)
	}
	f, _ := result.Float64()
	return math.Copysign(f, rough)
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
