package value

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
)

// The parser takes one copy of its input and cuts strings and members from
// it, so that converting a request costs some ten allocations.

// maxIntDigits is CPython's bound on the decimal digits of an int that is
// parsed or printed (sys.int_info.default_max_str_digits).
const maxIntDigits = 4300

// FromJSON reads one JSON text as Python's json.loads does: objects keep their
// order (a repeated key keeps its first place and last value), ints and floats
// stay apart, ints are exact at any size, NaN and Infinity are accepted, a
// lone surrogate is kept (see loneBase). Nesting beyond the default JSON depth of 500
// is a *limit.Error.
func FromJSON(data []byte) (Value, error) {
	return ParseJSON(string(data), limit.Default().JSONDepth)
}

// JSONReader reads one JSON text after another into the same memory. The zero
// value is ready; it serves one text at a time.
type JSONReader struct{ p jsonParser }

// Shared is FromJSON without a copy: the value shares memory with data and
// with the reader. It and the strings of it are good until data changes or
// Forget is called.
func (r *JSONReader) Shared(data []byte) (Value, error) {
	return r.p.read(unsafe.String(unsafe.SliceData(data), len(data)), slabSize, limit.Default().JSONDepth)
}

// A reader that served a larger text than these starts anew.
const (
	keepMade  = 256 << 10 // bytes of strings
	keepCells = 1 << 10
)

// Forget ends the use of all that the reader gave and keeps its memory for the
// next text.
func (r *JSONReader) Forget() {
	p := &r.p
	if cap(p.made) > keepMade || max(cap(p.cells), cap(p.entries), len(p.firstCells), len(p.firstEntries)) > keepCells {
		r.p = jsonParser{}
		return
	}
	clear(p.cells[:cap(p.cells)])
	clear(p.entries[:cap(p.entries)])
	clear(p.firstCells)
	clear(p.firstEntries)
	clear(p.firstDicts)
	r.p = jsonParser{
		made: p.made[:0], cells: p.cells[:0], entries: p.entries[:0],
		firstCells: p.firstCells, firstEntries: p.firstEntries, firstDicts: p.firstDicts,
		cellSlab: p.firstCells, slab: p.firstEntries, dicts: p.firstDicts,
	}
}

// ParseJSON is FromJSON with a depth of the caller's choice. Strings of the
// result share memory with text.
func ParseJSON(text string, depth int) (Value, error) {
	var p jsonParser
	return p.read(text, min(slabSize, 4+len(text)/bytesPerCell), depth)
}

// read reads a whole text and takes room cells at once.
func (p *jsonParser) read(text string, room, depth int) (Value, error) {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	p.s, p.maxDepth, p.room = text, depth, room
	p.space()
	v, err := p.value(0)
	if err != nil {
		return Value{}, err
	}
	p.space()
	if p.at < len(p.s) {
		return Value{}, p.fail("extra data")
	}
	return v, nil
}

// jsonParser keeps two stacks, so that members are gathered without growing a
// slice per container, and two slabs that finished containers are cut from.
type jsonParser struct {
	s        string
	at       int
	maxDepth int
	room     int    // cells taken at once
	made     []byte // all strings with escapes; it never moves, since none is longer than its source
	cells    []Value
	entries  []Entry
	cellSlab []Value
	slab     []Entry
	dicts    []Dict
	// The first slabs, whole, for a reader that uses them again.
	firstCells   []Value
	firstEntries []Entry
	firstDicts   []Dict
}

// slabSize is the number of cells taken at once at most: a chat request needs
// a few dozen, so a render costs a handful of allocations instead of one per
// object. A short text has fewer: about one in bytesPerCell.
const (
	slabSize     = 64
	bytesPerCell = 24
)

// fail makes an error that names the place, never the text around it.
func (p *jsonParser) fail(what string) error {
	return fmt.Errorf("parse JSON: %s at byte %d", what, p.at)
}

// space moves over whitespace.
func (p *jsonParser) space() {
	for p.at < len(p.s) {
		switch p.s[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// value reads any value.
func (p *jsonParser) value(depth int) (Value, error) {
	if p.at >= len(p.s) {
		return Value{}, p.fail("value expected")
	}
	switch c := p.s[p.at]; c {
	case '"':
		s, err := p.str()
		return Str(s), err
	case '{', '[':
		if depth >= p.maxDepth {
			return Value{}, &limit.Error{Kind: limit.JSONDepth, Max: int64(p.maxDepth)}
		}
		p.at++
		if c == '{' {
			return p.object(depth + 1)
		}
		return p.array(depth + 1)
	case 't':
		return p.word("true", True)
	case 'f':
		return p.word("false", False)
	case 'n':
		return p.word("null", None)
	case 'N':
		return p.word("NaN", Float(math.NaN()))
	case 'I':
		return p.word("Infinity", Float(math.Inf(1)))
	}
	return p.number()
}

// word reads a literal word.
func (p *jsonParser) word(w string, v Value) (Value, error) {
	if !strings.HasPrefix(p.s[p.at:], w) {
		return Value{}, p.fail("value expected")
	}
	p.at += len(w)
	return v, nil
}
