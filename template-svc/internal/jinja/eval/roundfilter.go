package eval

import (
	"math"
	"math/big"
	"strconv"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// round is exact: decimal digits of the float's own value decide, halves go
// to even.

// roundFilter is round(value, precision=0, method='common'): "common" is
// Python's round, so that ints stay ints and halves go to even.
func roundFilter(r *run, b []value.Value) (value.Value, error) {
	how := "common"
	if !isMissing(b[2]) {
		how = b[2].Text()
	}
	if how != "common" && how != "ceil" && how != "floor" {
		return value.Value{}, pyerr.New(pyerr.FilterArgument, "method must be common, ceil or floor")
	}
	digits := value.Int(0)
	if !isMissing(b[1]) {
		digits = b[1]
	}
	if how == "common" {
		return round(r, b[0], digits)
	}
	// func(value * 10**precision) / 10**precision
	scale, err := value.Binary(&r.m, "**", value.Int(10), digits)
	if err != nil {
		return value.Value{}, err
	}
	v, err := value.Binary(&r.m, "*", b[0], scale)
	if err != nil {
		return value.Value{}, err
	}
	switch {
	case v.Kind() == value.KindFloat:
		f := math.Floor(v.AsFloat())
		if how == "ceil" {
			f = math.Ceil(v.AsFloat())
		}
		if v, err = value.TruncFloat(f); err != nil {
			return value.Value{}, err
		}
	case !v.IsInt():
		return value.Value{}, typeError("must be real number, not %s", v.TypeName())
	}
	return value.Binary(&r.m, "/", v, scale)
}

// round is Python's round(v, digits): halves go to even.
func round(r *run, v, digits value.Value) (value.Value, error) {
	if !v.IsNumber() {
		return value.Value{}, typeError("type %s doesn't define __round__ method", v.TypeName())
	}
	if digits.IsNone() {
		if v.Kind() != value.KindFloat {
			return value.Unary("+", v)
		}
		return value.TruncFloat(math.RoundToEven(v.AsFloat()))
	}
	n, err := asInt(digits, 0)
	if err != nil {
		return value.Value{}, err
	}
	if v.Kind() != value.KindFloat {
		return roundInt(r, v, n)
	}
	f := v.AsFloat()
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0) || n > 323:
		return v, nil
	case n < -308:
		return value.Float(math.Copysign(0, f)), nil
	case n < 0:
		i, err := value.TruncFloat(f)
		if err != nil {
			return v, err
		}
		if f == math.Trunc(f) {
			if i, err = roundInt(r, i, n); err != nil {
				return v, err
			}
			g, err := value.ToFloat(i)
			return value.Float(math.Copysign(g, f)), err
		}
		p := math.Pow(10, float64(-n))
		return value.Float(math.RoundToEven(f/p) * p), nil
	}
	f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(n), 64), 64)
	return value.Float(f), nil
}

// roundInt rounds an int to a power of ten above one.
func roundInt(r *run, v value.Value, digits int64) (value.Value, error) {
	if digits >= 0 {
		return value.Unary("+", v)
	}
	x := v.AsBig()
	if -digits > int64(x.BitLen()) {
		return value.Int(0), nil
	}
	scale, err := value.Binary(&r.m, "**", value.Int(10), value.Int(-digits))
	if err != nil {
		return v, err
	}
	q, err := value.Binary(&r.m, "//", v, scale)
	if err != nil {
		return v, err
	}
	rest, err := value.Binary(&r.m, "%", v, scale)
	if err != nil {
		return v, err
	}
	twice := new(big.Int).Lsh(rest.AsBig(), 1)
	if c := twice.Cmp(scale.AsBig()); c > 0 || c == 0 && q.AsBig().Bit(0) == 1 {
		if q, err = value.Binary(&r.m, "+", q, value.Int(1)); err != nil {
			return v, err
		}
	}
	return value.Binary(&r.m, "*", q, scale)
}
