package value

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
)

// maxIntDigits is CPython's bound on the decimal digits of an int that is
// parsed or printed (sys.int_info.default_max_str_digits).
const maxIntDigits = 4300

// FromJSON reads one JSON text as Python's json.loads does: objects keep their
// order (a repeated key keeps its first place and last value), ints and floats
// stay apart, ints are exact at any size, NaN and Infinity are accepted, a
// lone surrogate becomes U+FFFD. Nesting beyond the default JSON depth of 500
// is a *limit.Error.
func FromJSON(data []byte) (Value, error) {
	return ParseJSON(string(data), limit.Default().JSONDepth)
}

// ParseJSON is FromJSON with a depth of the caller's choice. Strings of the
// result share memory with text.
func ParseJSON(text string, depth int) (Value, error) {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	p := jsonParser{s: text, maxDepth: depth}
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
	cells    []Value
	entries  []Entry
	cellSlab []Value
	slab     []Entry
	dicts    []Dict
}

// slabSize is the number of cells taken at once: a chat request needs a few
// dozen, so a render costs a handful of allocations instead of one per object.
const slabSize = 64

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

// number reads an int, or a float if it has a fraction or exponent.
func (p *jsonParser) number() (Value, error) {
	start := p.at
	if p.s[p.at] == '-' {
		p.at++
		if p.at < len(p.s) && p.s[p.at] == 'I' {
			return p.word("Infinity", Float(math.Inf(-1)))
		}
	}
	digits := p.digits()
	if digits == 0 || digits > 1 && p.s[p.at-digits] == '0' {
		p.at = start
		return Value{}, p.fail("value expected")
	}
	float := false
	if p.at+1 < len(p.s) && p.s[p.at] == '.' && isDigit(p.s[p.at+1]) {
		p.at++
		p.digits()
		float = true
	}
	if p.at < len(p.s) && (p.s[p.at] == 'e' || p.s[p.at] == 'E') {
		back := p.at
		p.at++
		if p.at < len(p.s) && (p.s[p.at] == '+' || p.s[p.at] == '-') {
			p.at++
		}
		if p.digits() == 0 {
			p.at = back
		} else {
			float = true
		}
	}
	text := p.s[start:p.at]
	if float {
		f, _ := strconv.ParseFloat(text, 64) // out of range gives an infinity, as in Python
		return Float(f), nil
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Int(i), nil
	}
	if digits > maxIntDigits {
		return Value{}, p.fail("integer of more than 4300 digits")
	}
	b, _ := new(big.Int).SetString(text, 10)
	return Big(b), nil
}

// digits moves over digits and counts them.
func (p *jsonParser) digits() int {
	start := p.at
	for p.at < len(p.s) && isDigit(p.s[p.at]) {
		p.at++
	}
	return p.at - start
}

// isDigit reports an ASCII digit.
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// array reads the members of an array, whose bracket is read already.
func (p *jsonParser) array(depth int) (Value, error) {
	base := len(p.cells)
	p.space()
	if p.at < len(p.s) && p.s[p.at] == ']' {
		p.at++
		return List(nil), nil
	}
	for {
		p.space()
		v, err := p.value(depth)
		if err != nil {
			return Value{}, err
		}
		p.cells = append(p.cells, v)
		more, err := p.next(']')
		if err != nil {
			return Value{}, err
		}
		if !more {
			break
		}
	}
	n := len(p.cells) - base
	if len(p.cellSlab) < n {
		p.cellSlab = make([]Value, max(n, slabSize))
	}
	out := p.cellSlab[:n:n]
	p.cellSlab = p.cellSlab[n:]
	copy(out, p.cells[base:])
	p.cells = p.cells[:base]
	return List(out), nil
}

// next reads "," or the closing sign.
func (p *jsonParser) next(end byte) (more bool, err error) {
	p.space()
	if p.at < len(p.s) {
		switch p.s[p.at] {
		case ',':
			p.at++
			return true, nil
		case end:
			p.at++
			return false, nil
		}
	}
	return false, p.fail("',' or '" + string(end) + "' expected")
}

// object reads the members of an object, whose brace is read already.
func (p *jsonParser) object(depth int) (Value, error) {
	base := len(p.entries)
	p.space()
	if p.at < len(p.s) && p.s[p.at] == '}' {
		p.at++
		return OfDict(&Dict{}), nil
	}
	for {
		p.space()
		if p.at >= len(p.s) || p.s[p.at] != '"' {
			return Value{}, p.fail("string key expected")
		}
		key, err := p.str()
		if err != nil {
			return Value{}, err
		}
		p.space()
		if p.at >= len(p.s) || p.s[p.at] != ':' {
			return Value{}, p.fail("':' expected")
		}
		p.at++
		p.space()
		v, err := p.value(depth)
		if err != nil {
			return Value{}, err
		}
		p.entries = append(p.entries, Entry{Str(key), v})
		more, err := p.next('}')
		if err != nil {
			return Value{}, err
		}
		if !more {
			return p.dict(base), nil
		}
	}
}

// dict cuts the entries above base off the stack and makes a dict of them.
func (p *jsonParser) dict(base int) Value {
	n := len(p.entries) - base
	if len(p.slab) < n {
		p.slab = make([]Entry, max(n, slabSize))
	}
	if len(p.dicts) == 0 {
		p.dicts = make([]Dict, slabSize/4)
	}
	d := &p.dicts[0]
	p.dicts = p.dicts[1:]
	d.entries = p.slab[:0:n]
	p.slab = p.slab[n:]
	for i := base; i < base+n; i++ {
		e := &p.entries[i]
		d.SetStr(e.Key.AsStr(), e.Val)
	}
	p.entries = p.entries[:base]
	return OfDict(d)
}

// str reads a string; without escapes it shares the input's memory.
func (p *jsonParser) str() (string, error) {
	p.at++
	start := p.at
	for p.at < len(p.s) {
		switch c := p.s[p.at]; {
		case c == '"':
			p.at++
			return p.s[start : p.at-1], nil
		case c == '\\':
			return p.escaped(start)
		case c < 0x20:
			return "", p.fail("control character in string")
		}
		p.at++
	}
	return "", p.fail("unterminated string")
}

// escaped reads on from the first backslash of the string that began at start.
func (p *jsonParser) escaped(start int) (string, error) {
	buf := make([]byte, 0, 2*(p.at-start)+16)
	buf = append(buf, p.s[start:p.at]...)
	for p.at < len(p.s) {
		c := p.s[p.at]
		switch {
		case c == '"':
			p.at++
			return string(buf), nil
		case c < 0x20:
			return "", p.fail("control character in string")
		case c != '\\':
			buf = append(buf, c)
			p.at++
			continue
		}
		p.at++
		if p.at >= len(p.s) {
			break
		}
		c = p.s[p.at]
		p.at++
		if c == 'u' {
			r, err := p.unicode()
			if err != nil {
				return "", err
			}
			buf = utf8.AppendRune(buf, r)
			continue
		}
		i := strings.IndexByte(`"\/bfnrt`, c)
		if i < 0 {
			return "", p.fail("bad escape")
		}
		buf = append(buf, "\"\\/\b\f\n\r\t"[i])
	}
	return "", p.fail("unterminated string")
}

// unicode reads the digits of a \u escape and a second half if there is one.
func (p *jsonParser) unicode() (rune, error) {
	r, ok := p.hex4(p.at)
	if !ok {
		return 0, p.fail("bad \\u escape")
	}
	p.at += 4
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	if strings.HasPrefix(p.s[p.at:], `\u`) {
		if low, ok := p.hex4(p.at + 2); ok {
			if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
				p.at += 6
				return full, nil
			}
		}
	}
	return utf8.RuneError, nil
}

// hex4 reads four hexadecimal digits at a place.
func (p *jsonParser) hex4(at int) (rune, bool) {
	if at+4 > len(p.s) {
		return 0, false
	}
	var r rune
	for _, c := range []byte(p.s[at : at+4]) {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
