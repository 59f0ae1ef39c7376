// Package jsontext reads JSON without decoding it. A Reader walks a document once, checks its whole grammar, and hands
// out the places of the values that a caller asks for; the bytes stay the client's own. Changes are made by splicing
// (Edit), so that member order, duplicate members and the spelling of numbers survive.
package jsontext

import (
	"errors"
	"unicode/utf8"
)

// Kind is the type of a JSON value.
type Kind uint8

// Kinds of values. None is the zero value: no value was seen.
const (
	None Kind = iota
	Null
	False
	True
	Number
	String
	Array
	Object
)

// Value is a value's place in the document: [Start, End) holds its source text.
type Value struct {
	Kind       Kind
	Start, End int
}

// Present tells whether the value was there and is not null.
func (v Value) Present() bool { return v.Kind > Null }

// Text is the value's source text in the document it was read from.
func (v Value) Text(doc []byte) []byte { return doc[v.Start:v.End] }

// Errors of a Reader. They name the kind of fault and never quote the document.
var (
	ErrSyntax   = errors.New("the body is not valid JSON")
	ErrTrailing = errors.New("there is text after the JSON value")
	ErrUTF8     = errors.New("the body is not valid UTF-8")
	ErrDepth    = errors.New("the JSON is nested too deeply")
)

// Reader is a pull parser over one document. It never recurses by itself except through the caller's Object and Array
// callbacks; Skip walks any depth up to the limit with a flat stack.
type Reader struct {
	doc      []byte
	pos      int
	depth    int
	maxDepth int
	stack    []byte
}

// NewReader starts at the beginning of doc. maxDepth is the deepest allowed nesting of arrays and objects. The document
// must be UTF-8 throughout.
func NewReader(doc []byte, maxDepth int) (*Reader, error) {
	r := &Reader{}
	if err := r.Reset(doc, maxDepth); err != nil {
		return nil, err
	}
	return r, nil
}

// Reset makes a Reader ready for another document and keeps its buffers.
func (r *Reader) Reset(doc []byte, maxDepth int) error {
	if !utf8.Valid(doc) {
		return ErrUTF8
	}
	r.doc, r.pos, r.depth, r.maxDepth = doc, 0, 0, maxDepth
	r.space()
	return nil
}

// SkipMark steps over a byte order mark at the start of the document.
func (r *Reader) SkipMark() {
	if r.pos == 0 && len(r.doc) > 2 && r.doc[0] == 0xEF && r.doc[1] == 0xBB && r.doc[2] == 0xBF {
		r.pos = 3
		r.space()
	}
}

// Pos is the offset of the next unread byte.
func (r *Reader) Pos() int { return r.pos }

// End checks that nothing but white space is left.
func (r *Reader) End() error {
	r.space()
	if r.pos != len(r.doc) {
		return ErrTrailing
	}
	return nil
}

// Peek tells the kind of the next value without consuming it; None at a place where no value can begin.
func (r *Reader) Peek() Kind {
	if r.pos >= len(r.doc) {
		return None
	}
	switch c := r.doc[r.pos]; c {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't':
		return True
	case 'f':
		return False
	case 'n':
		return Null
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return Number
		}
	}
	return None
}

// Object reads an object. member is called once per member with its name and must consume the value with a method of r.
func (r *Reader) Object(member func(name Name) error) (Value, error) {
	v := Value{Kind: Object, Start: r.pos}
	if !r.take('{') {
		return v, ErrSyntax
	}
	if err := r.enter(); err != nil {
		return v, err
	}
	for first := true; ; first = false {
		more, err := r.next('}', first)
		if err != nil {
			return v, err
		}
		if !more {
			break
		}
		name, err := r.name()
		if err != nil {
			return v, err
		}
		if err := member(name); err != nil {
			return v, err
		}
	}
	v.End = r.pos
	r.leave()
	return v, nil
}

// Array reads an array. item is called once per element and must consume it with a method of r.
func (r *Reader) Array(item func(i int) error) (Value, error) {
	v := Value{Kind: Array, Start: r.pos}
	if !r.take('[') {
		return v, ErrSyntax
	}
	if err := r.enter(); err != nil {
		return v, err
	}
	for i := 0; ; i++ {
		more, err := r.next(']', i == 0)
		if err != nil {
			return v, err
		}
		if !more {
			break
		}
		if err := item(i); err != nil {
			return v, err
		}
	}
	v.End = r.pos
	r.leave()
	return v, nil
}

// next steps over a comma and tells whether another element follows; it consumes the closing byte.
func (r *Reader) next(closing byte, first bool) (bool, error) {
	r.space()
	if r.take(closing) {
		return false, nil
	}
	if first {
		return true, nil
	}
	if !r.take(',') {
		return false, ErrSyntax
	}
	r.space()
	return true, nil
}

// enter and leave keep the nesting depth of callbacks.
func (r *Reader) enter() error {
	r.depth++
	if r.depth > r.maxDepth {
		return ErrDepth
	}
	r.space()
	return nil
}

func (r *Reader) leave() { r.depth-- }

// take consumes c if it is next.
func (r *Reader) take(c byte) bool {
	if r.pos < len(r.doc) && r.doc[r.pos] == c {
		r.pos++
		return true
	}
	return false
}

// space skips white space.
func (r *Reader) space() {
	for r.pos < len(r.doc) {
		switch r.doc[r.pos] {
		case ' ', '\n', '\t', '\r':
			r.pos++
		default:
			return
		}
	}
}
