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

// Kind is the coarse type of a Value.
type Kind uint8

// The kinds. Bool, Int and Big are all Python ints; a Str may be Markup.
const (
	KindUndefined Kind = iota // the zero Value: undefined without a name
	KindNone
	KindBool
	KindInt
	KindBig
	KindFloat
	KindStr
	KindList
	KindTuple
	KindDict
	KindObject
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

// Undef says why a value is undefined; its message is raised when the value is
// used. Exc is the Python exception type, "" for UndefinedError.
type Undef struct {
	Hint string
	Name string
	Exc  string
	// Of is the type text of the object that lacks Name, "" if a variable.
	Of string
	// Key is the repr of a key that is no string; it replaces Name.
	Key string
}

// Message is what Jinja2 says when the undefined value is used.
func (u *Undef) Message() string {
	switch {
	case u == nil:
		return "None is undefined"
	case u.Hint != "":
		return u.Hint
	case u.Of == "":
		return ReprString(u.Name) + " is undefined"
	case u.Key != "":
		return u.Of + " has no element " + u.Key
	}
	return ReprString(u.Of) + " has no attribute " + ReprString(u.Name)
}

// Undefined makes an undefined value with its reason, which may be nil.
func Undefined(u *Undef) Value { return Value{k: KindUndefined, p: unsafe.Pointer(u)} }

// Missing is the undefined value of the variable name.
func Missing(name string) Value { return Undefined(&Undef{Name: name}) }

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

// Kind gives the coarse type.
func (v Value) Kind() Kind { return v.k }

// IsUndefined reports whether v is undefined.
func (v Value) IsUndefined() bool { return v.k == KindUndefined }

// IsNone reports whether v is None.
func (v Value) IsNone() bool { return v.k == KindNone }

// IsStr reports whether v is a string, Markup included.
func (v Value) IsStr() bool { return v.k == KindStr }

// IsMarkup reports whether v is Markup.
func (v Value) IsMarkup() bool { return v.k == KindStr && v.markup }

// IsInt reports whether v is a Python int: a bool, an int or a big int.
func (v Value) IsInt() bool { return v.k >= KindBool && v.k <= KindBig }

// IsNumber reports whether v is an int or a float.
func (v Value) IsNumber() bool { return v.k >= KindBool && v.k <= KindFloat }

// Undef gives the reason of an undefined value, nil if it has none.
func (v Value) Undef() *Undef {
	if v.k != KindUndefined {
		return nil
	}
	return (*Undef)(v.p)
}

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

// AsStr gives the text of a KindStr.
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
	case KindStr:
		return v.markup == w.markup && v.AsStr() == w.AsStr()
	}
	return true
}

// Truth is Python's bool(v).
func (v Value) Truth() bool {
	switch v.k {
	case KindUndefined, KindNone:
		return false
	case KindBool, KindInt, KindStr, KindList, KindTuple:
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

// TypeName is type(v).__name__.
func (v Value) TypeName() string {
	switch v.k {
	case KindUndefined:
		return "Undefined"
	case KindNone:
		return "NoneType"
	case KindBool:
		return "bool"
	case KindInt, KindBig:
		return "int"
	case KindFloat:
		return "float"
	case KindStr:
		if v.markup {
			return "Markup"
		}
		return "str"
	case KindList:
		return "list"
	case KindTuple:
		return "tuple"
	case KindDict:
		return "dict"
	}
	return v.AsObject().TypeName()
}

// ObjectText is how Jinja2 names the object in "… has no attribute": "None",
// "dict object", "jinja2.utils.Namespace object".
func (v Value) ObjectText() string {
	switch v.k {
	case KindUndefined:
		return "jinja2.runtime.Undefined object"
	case KindNone:
		return "None"
	case KindDict:
		return "dict object"
	case KindStr:
		if v.markup {
			return "markupsafe.Markup object"
		}
		return "str object"
	case KindObject:
		if q, ok := v.AsObject().(Qualified); ok {
			return q.Module() + "." + v.TypeName() + " object"
		}
	}
	return v.TypeName() + " object"
}
