package eval

import (
	"math"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// The filters that make numbers read text as Python's int() and float() do.

// numberFilterOf gives the filters that make numbers.
func numberFilterOf(name string) nativeFunc {
	switch name {
	// abs(x)
	case "abs":
		return absFilter
	// int(value, default=0, base=10)
	case "int":
		return bound(intSignature, toInt)
	// float(value, default=0.0)
	case "float":
		return bound(floatSignature, toFloat)
	// round(value, precision=0, method='common')
	case "round":
		return bound(roundSignature, roundFilter)
	// sum(iterable, attribute=None, start=0)
	case "sum":
		return bound(sumSignature, sumFilter)
	// length(obj): also called count
	case "length", "count":
		return lengthFilter
	}
	return nil
}

var (
	intSignature   = newSignature("do_int", 1, "value", "default", "base")
	floatSignature = newSignature("do_float", 1, "value", "default")
	roundSignature = newSignature("do_round", 1, "value", "precision", "method")
	sumSignature   = &signature{
		name: "sync_do_sum", required: 1, hidden: 1,
		params: []string{"iterable", "attribute", "start"},
	}
)

// absFilter is Python's abs().
func absFilter(_ *run, a *args) (value.Value, error) {
	if len(a.kw) > 0 {
		return value.Value{}, typeError("abs() takes no keyword arguments")
	}
	if len(a.pos) != 1 {
		return value.Value{}, typeError("abs() takes exactly one argument (%d given)", len(a.pos))
	}
	v := a.pos[0]
	switch {
	case v.Kind() == value.KindFloat:
		return value.Float(math.Abs(v.AsFloat())), nil
	case !v.IsInt():
		return value.Value{}, typeError("bad operand type for abs(): '%s'", v.TypeName())
	case v.AsBig().Sign() < 0:
		return value.Unary("-", v)
	}
	return value.Unary("+", v)
}

// lengthFilter is Python's len().
func lengthFilter(r *run, a *args) (value.Value, error) {
	if len(a.kw) > 0 {
		return value.Value{}, typeError("len() takes no keyword arguments")
	}
	if len(a.pos) != 1 {
		return value.Value{}, typeError("len() takes exactly one argument (%d given)", len(a.pos))
	}
	if v := a.pos[0]; v.IsStr() {
		if err := r.m.Scan(len(v.AsStr())); err != nil {
			return v, err
		}
	}
	n, err := a.pos[0].Len()
	return value.Int(int64(n)), err
}

// toInt is int(value, base) for text and int(value) else; what cannot be read
// goes through float and then becomes the default.
func toInt(r *run, b []value.Value) (value.Value, error) {
	def := value.Int(0)
	if !isMissing(b[1]) {
		def = b[1]
	}
	v := b[0]
	switch v.Kind() {
	case value.KindUndefined:
		return v, value.RaiseUndefined(v)
	case value.KindBool, value.KindInt, value.KindBig:
		return value.Unary("+", v)
	case value.KindFloat:
		i, err := value.TruncFloat(v.AsFloat())
		if pyerr.Is(err, pyerr.Value) {
			return def, nil
		}
		return i, err
	case value.KindStr, value.KindBytes:
		base := value.Int(10)
		if !isMissing(b[2]) && v.IsStr() {
			base = b[2]
		}
		return textToInt(r, v, base, def)
	}
	return def, nil
}

// textToInt is int(text, base), then int(float(text)), then the default.
func textToInt(r *run, v, base, def value.Value) (value.Value, error) {
	if err := r.m.Chars(len(v.AsStr())); err != nil {
		return v, err
	}
	if k := base.Kind(); k == value.KindInt || k == value.KindBool {
		if n := base.AsInt(); n == 0 || n >= 2 && n <= 36 {
			i, ok, err := value.ParseInt(v.AsStr(), int(n))
			if err == nil && ok {
				return i, r.m.Bits(int64(i.AsBig().BitLen()))
			}
		}
	}
	f, ok := value.ParseFloat(v.AsStr())
	if !ok {
		return def, nil
	}
	i, err := value.TruncFloat(f)
	if err != nil {
		return def, nil
	}
	return i, nil
}

// toFloat is float(value, default=0.0): junk gives the default, undefined
// raises.
func toFloat(_ *run, b []value.Value) (value.Value, error) {
	v := b[0]
	switch {
	case v.IsUndefined():
		return v, value.RaiseUndefined(v)
	case v.IsNumber():
		f, err := value.ToFloat(v)
		return value.Float(f), err
	case v.IsStr(), v.IsBytes():
		if f, ok := value.ParseFloat(v.AsStr()); ok {
			return value.Float(f), nil
		}
	}
	if isMissing(b[1]) {
		return value.Float(0), nil
	}
	return b[1], nil
}

// sumFilter is sum(iterable, attribute=None, start=0), with the operator +
// of each type.
func sumFilter(r *run, b []value.Value) (value.Value, error) {
	sum := value.Int(0)
	if !isMissing(b[2]) {
		sum = b[2]
	}
	path := newAttrPath(b[1])
	it, err := b[0].Iter()
	if err != nil {
		return sum, err
	}
	if sum.IsBytes() {
		return sum, typeError("sum() can't sum bytes [use b''.join(seq) instead]")
	}
	if sum.IsStr() {
		return sum, typeError("sum() can't sum strings [use ''.join(seq) instead]")
	}
	err = r.each(it, func(v value.Value) error {
		if v, err = path.get(r, v); err != nil {
			return err
		}
		sum, err = value.Binary(&r.m, "+", sum, v)
		return err
	})
	return sum, err
}
