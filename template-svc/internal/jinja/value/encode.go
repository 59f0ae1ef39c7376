package value

import (
	"strconv"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// A character without a code goes to an error handler by name, which is looked up only then.

// encoder is one run of str.encode.
type encoder struct {
	codec
	errors string
	out    []byte
}

// Encode is str.encode(encoding, errors).
func Encode(m *limit.Meter, s, encoding, errors string) (Value, error) {
	c, err := codecOf(encoding)
	if err != nil {
		return Value{}, err
	}
	if err := m.Chars(len(s)); err != nil {
		return Value{}, err
	}
	e := encoder{codec: c, errors: errors, out: c.order(nil)}
	chars := characters(s)
	if err := m.Product(len(chars), 8); err != nil {
		return Value{}, err
	}
	for i := 0; i < len(chars); {
		if c.fits(chars[i]) {
			e.out = c.append(e.out, chars[i])
			i++
			continue
		}
		end := i + 1
		for c.kind != 'h' && c.kind != 'w' && end < len(chars) && !c.fits(chars[end]) {
			end++
		}
		before := len(e.out)
		if err := e.handle(chars, i, end); err != nil {
			return Value{}, c.wrap(err, "encoding", encoding)
		}
		if err := m.Bytes(len(e.out) - before); err != nil {
			return Value{}, err
		}
		i = end
	}
	return Bytes(string(e.out)), nil
}

// characters are the code points of s, lone surrogates as what they are.
func characters(s string) []rune {
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if lone, ok := loneSurrogate(r); ok {
			r = lone
		}
		out = append(out, r)
	}
	return out
}

// handle gives the characters from start to end to the error handler.
func (e *encoder) handle(chars []rune, start, end int) error {
	for at := start; at < end; at++ {
		r := chars[at]
		switch e.errors {
		case "ignore":
		case "replace":
			e.out = e.append(e.out, '?')
		case "xmlcharrefreplace":
			e.text("&#" + strconv.Itoa(int(r)) + ";")
		case "backslashreplace":
			e.text(string(appendRuneEscape(nil, r)))
		case "surrogateescape":
			if e.kind == 'h' || e.kind == 'w' || r < 0xdc80 || r > 0xdcff {
				return e.fail(chars, at, end)
			}
			e.out = append(e.out, byte(r))
		case "surrogatepass":
			if e.kind == 'a' || e.kind == 'l' || r < 0xd800 || r > 0xdfff {
				return e.fail(chars, at, end)
			}
			e.out = e.append(e.out, r)
		case "strict":
			return e.fail(chars, start, end)
		default:
			return pyerr.New(pyerr.Lookup, "unknown error handler name "+ReprString(e.errors))
		}
	}
	return nil
}

// text appends a replacement.
func (e *encoder) text(s string) {
	for _, r := range s {
		e.out = e.append(e.out, r)
	}
}

// fail is the UnicodeEncodeError of some characters.
func (e *encoder) fail(chars []rune, start, end int) error {
	if end == start+1 {
		return pyerr.Newf(pyerr.UnicodeEncode, "'%s' codec can't encode character '%s' in position %d: %s", e.name,
			appendRuneEscape(nil, chars[start]), start, e.reason())
	}
	return pyerr.Newf(pyerr.UnicodeEncode, "'%s' codec can't encode characters in position %d-%d: %s", e.name, start, end-1,
		e.reason())
}

// AppendChar appends a code point, a lone surrogate in the form in which texts keep it.
func AppendChar(b []byte, r rune) []byte {
	if r >= 0xd800 && r <= 0xdfff {
		r += loneBase
	}
	return utf8.AppendRune(b, r)
}
