package value

import (
	"math"
	"math/big"
	"unsafe"
)

// Accessors do not check kinds; callers do, once, for many accesses.

// AsBool gives the bool of a KindBool.
func (v Value) AsBool() bool { return v.n != 0 }

// AsInt gives the integer of a KindBool or KindInt.
func (v Value) AsInt() int64 { return int64(v.n) }

// AsBig gives any Python int as a big.Int, which must not be changed.
func (v Value) AsBig() *big.Int {
	if v.k == KindBig {
		return (*big.Int)(v.p)
	}
	return big.NewInt(int64(v.n))
}

// AsFloat gives the float of a KindFloat.
func (v Value) AsFloat() float64 { return math.Float64frombits(v.n) }

// AsStr gives the text of a KindStr, the bytes of a KindBytes.
func (v Value) AsStr() string { return unsafe.String((*byte)(v.p), int(v.n)) }

// Text gives the text of a KindStr, "" for any other kind.
func (v Value) Text() string {
	if v.k != KindStr {
		return ""
	}
	return v.AsStr()
}

// Cells gives the members of a list or tuple, which must not be changed.
func (v Value) Cells() []Value { return unsafe.Slice((*Value)(v.p), int(v.n)) }

// AsDict gives the dict of a KindDict.
func (v Value) AsDict() *Dict { return (*Dict)(v.p) }

// AsObject gives the object of a KindObject, nil for any other kind.
func (v Value) AsObject() Object {
	if v.k != KindObject {
		return nil
	}
	return *(*Object)(v.p)
}

// WithMarkup gives the string v as Markup or as plain text.
func (v Value) WithMarkup(on bool) Value {
	v.markup = on
	return v
}
