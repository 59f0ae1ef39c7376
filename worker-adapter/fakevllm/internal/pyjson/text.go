package pyjson

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string; the position is at its opening quote.
func (p *parser) str() (string, error) {
	open := p.pos
	p.pos++
	start := p.pos
	for p.pos < len(p.data) { // strings without escapes, nearly all, are copied once
		switch c := p.data[p.pos]; {
		case c == '"':
			s := string(p.data[start:p.pos])
			p.pos++
			return s, nil
		case c == '\\':
			return p.escaped(open, start)
		case c < 0x20:
			return "", p.fail("Invalid control character at", p.pos)
		default:
			p.pos++
		}
	}
	return "", p.fail("Unterminated string starting at", open)
}

// escaped goes on with a string at its first escape; start is where its contents begin.
func (p *parser) escaped(open, start int) (string, error) {
	buf := append([]byte(nil), p.data[start:p.pos]...)
	for p.pos < len(p.data) {
		c := p.data[p.pos]
		switch {
		case c == '"':
			p.pos++
			return string(buf), nil
		case c < 0x20:
			return "", p.fail("Invalid control character at", p.pos)
		case c != '\\':
			buf = append(buf, c)
			p.pos++
			continue
		}
		var err error
		if buf, err = p.escape(buf, open); err != nil {
			return "", err
		}
	}
	return "", p.fail("Unterminated string starting at", open)
}

// escape reads one escape sequence; the position is at its backslash.
func (p *parser) escape(buf []byte, open int) ([]byte, error) {
	at := p.pos
	if p.pos+1 >= len(p.data) {
		return nil, p.fail("Unterminated string starting at", open)
	}
	c := p.data[p.pos+1]
	p.pos += 2
	if c == 'u' {
		return p.unicode(buf, at)
	}
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	i := strings.IndexByte(from, c)
	if i < 0 {
		return nil, p.fail("Invalid \\escape", at)
	}
	return append(buf, to[i]), nil
}

// hex4 reads four hexadecimal digits; false, and no progress, if they are not there.
func (p *parser) hex4() (rune, bool) {
	if p.pos+4 > len(p.data) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(p.data[p.pos:p.pos+4]), 16, 32)
	if err != nil {
		return 0, false
	}
	p.pos += 4
	return rune(n), true
}

// unicode reads what follows \u: a character, a surrogate pair, or a lone surrogate, which is noted.
func (p *parser) unicode(buf []byte, at int) ([]byte, error) {
	r, ok := p.hex4()
	if !ok {
		return nil, p.fail("Invalid \\uXXXX escape", at+1)
	}
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(buf, r), nil
	}
	if p.pos+1 < len(p.data) && p.data[p.pos] == '\\' && p.data[p.pos+1] == 'u' {
		back := p.pos
		p.pos += 2
		low, ok := p.hex4()
		if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
			return utf8.AppendRune(buf, pair), nil
		}
		p.pos = back
	}
	p.lone = true
	return utf8.AppendRune(buf, utf8.RuneError), nil
}

// Repr is Python's repr() of a string, as it shows in the messages of pydantic errors.
func Repr(s string) string {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	out := []byte{quote}
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\t':
			out = append(out, `\t`...)
		case r < 0x20 || r == 0x7f:
			const hex = "0123456789abcdef"
			out = append(out, '\\', 'x', hex[r>>4], hex[r&15])
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return string(append(out, quote))
}

// FloatRepr is Python's repr() of a float: shortest digits, always with a point or an exponent.
func FloatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// Describe is the "input" of a validation error of vLLM 0.32: containers by size only, everything else in words.
func (v *Value) Describe() string {
	switch v.Kind {
	case Bool:
		if v.Bool {
			return "True"
		}
		return "False"
	case Int:
		return strconv.FormatInt(v.Int, 10)
	case Float:
		return FloatRepr(v.Float)
	case String:
		return v.Str
	case List:
		return "<list of " + strconv.Itoa(v.Len()) + " items>"
	case Dict:
		return "<dict of " + strconv.Itoa(v.Len()) + " items>"
	}
	return "None"
}

// AppendString writes a JSON string as pydantic does: only what must be escaped is.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			const digits = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}
