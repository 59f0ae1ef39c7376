package value

// Kinds are coarser than Python's types: an int may be small or big, a str
// may be Markup, and all rarer types are objects.

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
	KindBytes
	KindDict
	KindObject
)

// Kind gives the coarse type.
func (v Value) Kind() Kind { return v.k }

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
	case KindBytes:
		return "bytes"
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
