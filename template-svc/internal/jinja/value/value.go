// Package value is the data a template sees: Python's None, bool, int, float,
// str, list, tuple and dict plus Jinja2's undefined and opaque objects, in a
// Value of three words that copies without allocating.
//
// Values are immutable once they are shared: a list or dict is filled by its
// builder and never changed after it was handed on, so one value may be read
// by any number of renders at once. Operators and conversions follow CPython
// 3.12 and charge a limit.Meter for what they make.
package value

import (
	"math"
	"math/big"
	"unsafe"
)

// Value holds one datum. The zero Value is undefined. Compare Values with
// Equal, never with ==.
type Value struct {
	// p is *Undef, *big.Int, the first byte of a string, the first cell of a
	// list or tuple, *Dict or *Object, by kind.
	p unsafe.Pointer
	// n is the bool, the int's or float's bits, or a length in bytes or cells.
	n uint64
	k Kind
	// markup marks a Str as text that was escaped or declared safe.
	markup bool
}

// The constants of the language.
var (
	None  = Value{k: KindNone}
	True  = Value{k: KindBool, n: 1}
	False = Value{k: KindBool}
)

// Bool gives True or False.
func Bool(b bool) Value {
	if b {
		return True
	}
	return False
}

// Int makes an integer.
func Int(i int64) Value { return Value{k: KindInt, n: uint64(i)} }

// Big makes an integer of any size; small ones become KindInt. b must not
// change afterwards.
func Big(b *big.Int) Value {
	if b.IsInt64() {
		return Int(b.Int64())
	}
	return Value{k: KindBig, p: unsafe.Pointer(b)}
}

// Float makes a float.
func Float(f float64) Value { return Value{k: KindFloat, n: math.Float64bits(f)} }

// Str makes a string; s is valid UTF-8.
func Str(s string) Value {
	return Value{k: KindStr, p: unsafe.Pointer(unsafe.StringData(s)), n: uint64(len(s))}
}

// StrOfBytes makes a string of b without copying; b must not change afterwards.
func StrOfBytes(b []byte) Value {
	return Value{k: KindStr, p: unsafe.Pointer(unsafe.SliceData(b)), n: uint64(len(b))}
}

// Markup makes text that counts as escaped already.
func Markup(s string) Value {
	v := Str(s)
	v.markup = true
	return v
}

// List makes a list of items, which the caller must not change afterwards.
func List(items []Value) Value {
	return Value{k: KindList, p: unsafe.Pointer(unsafe.SliceData(items)), n: uint64(len(items))}
}

// Tuple makes a tuple of items, which the caller must not change afterwards.
func Tuple(items []Value) Value {
	return Value{k: KindTuple, p: unsafe.Pointer(unsafe.SliceData(items)), n: uint64(len(items))}
}

// OfDict makes a value of d, which the caller must not change afterwards.
func OfDict(d *Dict) Value { return Value{k: KindDict, p: unsafe.Pointer(d)} }

// OfObject wraps an opaque object.
func OfObject(o Object) Value { return Value{k: KindObject, p: unsafe.Pointer(&o)} }

// OfObjectRef wraps the object that o points to without allocating; *o must
// not change afterwards.
func OfObjectRef(o *Object) Value { return Value{k: KindObject, p: unsafe.Pointer(o)} }

// Undef gives the reason of an undefined value, nil if it has none.
func (v Value) Undef() *Undef {
	if v.k != KindUndefined {
		return nil
	}
	return (*Undef)(v.p)
}

// Same reports Python's "is" as far as values have an identity.
func (v Value) Same(w Value) bool {
	if v.k != w.k || v.n != w.n {
		return false
	}
	switch v.k {
	case KindUndefined, KindDict, KindList, KindTuple, KindBig:
		return v.p == w.p
	case KindObject:
		return v.AsObject() == w.AsObject()
	case KindStr, KindBytes:
		return v.markup == w.markup && v.AsStr() == w.AsStr()
	}
	return true
}

// Truth is Python's bool(v).
func (v Value) Truth() bool {
	switch v.k {
	case KindUndefined, KindNone:
		return false
	case KindBool, KindInt, KindStr, KindList, KindTuple, KindBytes:
		return v.n != 0
	case KindFloat:
		return v.AsFloat() != 0
	case KindDict:
		return v.AsDict().Len() > 0
	case KindObject:
		if l, ok := v.AsObject().(Sized); ok {
			n, err := l.Len()
			return err != nil || n > 0
		}
	}
	return true
}
