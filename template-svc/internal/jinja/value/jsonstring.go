package value

import (
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// Strings are validated while they are scanned; only those with escapes are
// copied, all of a document into one buffer, since none is longer than its source.

// str reads a string; without escapes it shares the input's memory.
func (p *jsonParser) str() (string, error) {
	p.at++
	start := p.at
	p.at += plainPrefix(p.s[p.at:])
	if p.at < len(p.s) {
		switch p.s[p.at] {
		case '"':
			p.at++
			return p.s[start : p.at-1], nil
		case '\\':
			return p.escaped(start)
		}
		return "", p.fail("control character in string")
	}
	return "", p.fail("unterminated string")
}

// plainPrefix is how many bytes at the start of s are neither quote, backslash nor control character. Eight bytes are
// looked at in a step: the high bit of each byte of m says that it is one of them, and the lowest such bit is right.
func plainPrefix(s string) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(s); n += 8 {
		b := s[n : n+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		quote, back := w^ones*'"', w^ones*'\\'
		if m := ((quote-ones)&^quote | (back-ones)&^back | (w-ones*0x20)&^w) & highs; m != 0 {
			return n + bits.TrailingZeros64(m)>>3
		}
	}
	for ; n < len(s); n++ {
		if c := s[n]; c == '"' || c == '\\' || c < 0x20 {
			break
		}
	}
	return n
}

// escaped reads on from the first backslash of the string that began at start.
func (p *jsonParser) escaped(start int) (string, error) {
	if len(p.made) == 0 && cap(p.made) < len(p.s)-start {
		p.made = make([]byte, 0, len(p.s)-start)
	}
	from := len(p.made)
	p.made = append(p.made, p.s[start:p.at]...)
	for p.at < len(p.s) {
		switch c := p.s[p.at]; {
		case c == '"':
			p.at++
			made := p.made[from:]
			return unsafe.String(unsafe.SliceData(made), len(made)), nil
		case c < 0x20:
			return "", p.fail("control character in string")
		case c != '\\':
			n := plainPrefix(p.s[p.at:])
			p.made = append(p.made, p.s[p.at:p.at+n]...)
			p.at += n
			continue
		}
		p.at++
		if p.at >= len(p.s) {
			break
		}
		if err := p.escape(); err != nil {
			return "", err
		}
	}
	return "", p.fail("unterminated string")
}

// escape reads what follows a backslash.
func (p *jsonParser) escape() error {
	c := p.s[p.at]
	p.at++
	if c == 'u' {
		r, err := p.unicode()
		if err == nil {
			p.made = utf8.AppendRune(p.made, r)
		}
		return err
	}
	i := strings.IndexByte(`"\/bfnrt`, c)
	if i < 0 {
		return p.fail("bad escape")
	}
	p.made = append(p.made, "\"\\/\b\f\n\r\t"[i])
	return nil
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
