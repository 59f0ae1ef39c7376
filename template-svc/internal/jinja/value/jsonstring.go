package value

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Strings are validated while they are scanned; only those with escapes are
// copied.

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

// loneBase + U+D8xx…U+DFxx is how a lone surrogate, which UTF-8 cannot hold, is kept: a private character of plane 16
// that counts as one code point, as in Python, and that repr and tojson write as the surrogate. A text that holds such
// a private character itself is printed like a lone surrogate there, and untouched everywhere else.
const loneBase = 0x100000

// loneSurrogate gives the surrogate that a character stands for.
func loneSurrogate(r rune) (rune, bool) {
	return r - loneBase, r >= loneBase+0xd800 && r <= loneBase+0xdfff
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
	return loneBase + r, nil
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
