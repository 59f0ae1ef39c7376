package value

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Iteration over immutable containers needs no protection against change.

// Iterator gives one value after another; ok is false at the end.
type Iterator interface {
	Next() (v Value, ok bool, err error)
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
	case KindBytes:
		return &byteIter{s: v.AsStr()}, nil
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
	case KindUndefined, KindList, KindTuple, KindDict, KindStr, KindBytes:
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
	case KindList, KindTuple, KindBytes:
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
