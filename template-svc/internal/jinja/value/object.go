package value

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

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

// Iterator gives one value after another; ok is false at the end.
type Iterator interface {
	Next() (v Value, ok bool, err error)
}

// Generator is a lazy, single-use sequence without a length. It belongs to one
// render and is not safe for concurrent use.
type Generator struct {
	name    string
	next    func() (Value, bool, error)
	done    bool
	running bool
}

// NewGenerator makes a generator of next; name is its Python type, such as
// "generator" or "list_reverseiterator".
func NewGenerator(name string, next func() (Value, bool, error)) Value {
	return OfObject(&Generator{name: name, next: next})
}

// TypeName is the Python type given to NewGenerator.
func (g *Generator) TypeName() string { return g.name }

// Iter gives g itself: a second loop goes on where the first one stopped.
func (g *Generator) Iter() Iterator { return g }

// Next gives the next value; after the end or an error there are none.
func (g *Generator) Next() (Value, bool, error) {
	if g.done {
		return Value{}, false, nil
	}
	if g.running {
		return Value{}, false, pyerr.New(pyerr.Value, "generator already executing")
	}
	g.running = true
	v, ok, err := g.next()
	g.running = false
	g.done = !ok || err != nil
	return v, ok, err
}

// AppendRepr prints the generator as Python does, without its address.
func (g *Generator) AppendRepr(p *Printer) error {
	if g.name == "generator" {
		return p.Write("<generator object>")
	}
	return p.Write("<" + g.name + " object>")
}

// cellIter walks the cells of a list or tuple.
type cellIter struct {
	cells []Value
	at    int
}

// Next gives the next cell.
func (it *cellIter) Next() (Value, bool, error) {
	if it.at >= len(it.cells) {
		return Value{}, false, nil
	}
	it.at++
	return it.cells[it.at-1], true, nil
}

// FromCells gives an iterator over cells.
func FromCells(cells []Value) Iterator { return &cellIter{cells: cells} }

// keyIter walks the keys of a dict.
type keyIter struct {
	entries []Entry
	at      int
}

// Next gives the next key.
func (it *keyIter) Next() (Value, bool, error) {
	if it.at >= len(it.entries) {
		return Value{}, false, nil
	}
	it.at++
	return it.entries[it.at-1].Key, true, nil
}

// runeIter walks the code points of a string.
type runeIter struct {
	s      string
	markup bool
}

// Next gives the next code point as a string.
func (it *runeIter) Next() (Value, bool, error) {
	if it.s == "" {
		return Value{}, false, nil
	}
	n := runeLen(it.s)
	v := Str(it.s[:n]).WithMarkup(it.markup)
	it.s = it.s[n:]
	return v, true, nil
}

// runeLen is the number of bytes of the first code point of s, which is not empty.
func runeLen(s string) int {
	n := 1
	for n < len(s) && s[n]&0xC0 == 0x80 {
		n++
	}
	return n
}

// Iter is Python's iter(v): TypeError if v is not iterable.
func (v Value) Iter() (Iterator, error) {
	switch v.k {
	case KindUndefined:
		return &cellIter{}, nil
	case KindList, KindTuple:
		return &cellIter{cells: v.Cells()}, nil
	case KindDict:
		return &keyIter{entries: v.AsDict().entries}, nil
	case KindStr:
		return &runeIter{s: v.AsStr()}, nil
	case KindObject:
		if it, ok := v.AsObject().(Iterable); ok {
			return it.Iter(), nil
		}
	}
	return nil, pyerr.Newf(pyerr.Type, "'%s' object is not iterable", v.TypeName())
}

// CanIter reports whether Iter succeeds, without touching a generator.
func (v Value) CanIter() bool {
	switch v.k {
	case KindUndefined, KindList, KindTuple, KindDict, KindStr:
		return true
	case KindObject:
		_, ok := v.AsObject().(Iterable)
		return ok
	}
	return false
}

// Len is Python's len(v): TypeError if v has none. Strings count code points.
func (v Value) Len() (int, error) {
	switch v.k {
	case KindUndefined:
		return 0, nil
	case KindStr:
		return RuneCount(v.AsStr()), nil
	case KindList, KindTuple:
		return int(v.n), nil
	case KindDict:
		return v.AsDict().Len(), nil
	case KindObject:
		if l, ok := v.AsObject().(Sized); ok {
			return l.Len()
		}
	}
	return 0, pyerr.Newf(pyerr.Type, "object of type '%s' has no len()", v.TypeName())
}
