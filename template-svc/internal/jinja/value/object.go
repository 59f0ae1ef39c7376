package value

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
)

// Rare types are known by the interfaces below; a type without any of them
// can only be printed and compared by identity.

// Object is a value the language knows only by what it can do: functions,
// macros, loops, namespaces, ranges, dict views, generators. What it can do is
// said by the interfaces below. Objects must be comparable with ==.
type Object interface {
	// TypeName is type(x).__name__, such as "generator".
	TypeName() string
}

// Qualified objects are of a type outside Python's builtins.
type Qualified interface{ Module() string }

// Sized objects have a length.
type Sized interface{ Len() (int, error) }

// Iterable objects can be looped over.
type Iterable interface{ Iter() Iterator }

// Reversible objects can be looped over from the end.
type Reversible interface{ Reversed() Iterator }

// Printable objects have a text of their own; str and repr are equal.
type Printable interface{ AppendRepr(p *Printer) error }

// Container objects answer "in" without iteration.
type Container interface {
	Contains(m *limit.Meter, v Value) (bool, error)
}

// Indexed objects answer x[key]; ok is false if the key is absent.
type Indexed interface {
	Item(key Value) (v Value, ok bool)
}

// Attributed objects answer x.name; ok is false if there is no such attribute.
type Attributed interface {
	Attr(name string) (v Value, ok bool)
}
