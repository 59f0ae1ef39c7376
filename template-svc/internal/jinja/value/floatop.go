package value

import (
	"math"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Floats divide like CPython's: the remainder has the divisor's sign, and
// zero raises.

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
