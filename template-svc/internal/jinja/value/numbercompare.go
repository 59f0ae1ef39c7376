package value

import (
	"math"
	"math/big"
)

// Ints and floats compare by their exact values, not after rounding one to
// the other.

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
