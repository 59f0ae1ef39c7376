package syntax

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// String literals hold Python's escapes, decoded after newlines were
// normalised.

// str moves over a string literal; false if it has no end.
func (l *lexer) str(quote byte) bool {
	for i := l.at + 1; i < len(l.s); i++ {
		switch l.s[i] {
		case '\\':
			i++
		case quote:
			l.emit(token{kind: kString, text: l.s[l.at+1 : i], off: l.at})
			l.at = i + 1
			return true
		}
	}
	return false
}

// decode resolves the escapes of the string token emitted last.
func (l *lexer) decode() error {
	t := &l.toks[len(l.toks)-1]
	if strings.IndexByte(t.text, '\\') < 0 {
		return nil
	}
	s := t.text
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b = append(b, s[i])
			i++
			continue
		}
		var n int
		var fault string
		b, n, fault = appendEscape(b, s[i+1:])
		if fault != "" {
			return l.src.fail(t.off, "%s", fault)
		}
		i += 1 + n
	}
	t.text = string(b)
	return nil
}

// appendEscape decodes the escape whose text after the backslash is s and
// gives how much of s it took.
func appendEscape(b []byte, s string) (out []byte, n int, fault string) {
	c := s[0]
	if i := strings.IndexByte("\\'\"abfnrtv", c); i >= 0 {
		return append(b, "\\'\"\a\b\f\n\r\t\v"[i]), 1, ""
	}
	switch {
	case c == '\n':
		return b, 1, ""
	case c >= '0' && c <= '7':
		n := 0
		r := rune(0)
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			r = r<<3 | rune(s[n]-'0')
			n++
		}
		return utf8.AppendRune(b, r), n, ""
	case c == 'x':
		return appendHex(b, s, 2, `truncated \xXX escape`)
	case c == 'u':
		return appendHex(b, s, 4, `truncated \uXXXX escape`)
	case c == 'U':
		return appendHex(b, s, 8, `truncated \UXXXXXXXX escape`)
	case c == 'N':
		return b, 0, `malformed \N character escape`
	case c >= utf8.RuneSelf:
		// Python escapes the character first, and its backslash joins this one.
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r < 0x100:
			b = append(b, `\x`+strconv.FormatInt(int64(r), 16)...)
		case r < 0x10000:
			b = append(b, `\u`+pad(r, 4)...)
		default:
			b = append(b, `\U`+pad(r, 8)...)
		}
		return b, n, ""
	}
	return append(b, '\\', c), 1, ""
}

// pad writes r in hexadecimal to a width.
func pad(r rune, width int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", width-len(s)) + s
}

// appendHex decodes an escape of width hexadecimal digits.
func appendHex(b []byte, s string, width int, fault string) ([]byte, int, string) {
	if len(s) < 1+width {
		return b, 0, fault
	}
	u, err := strconv.ParseUint(s[1:1+width], 16, 32)
	if err != nil {
		return b, 0, fault
	}
	if u > utf8.MaxRune {
		return b, 0, "illegal Unicode character"
	}
	return value.AppendChar(b, rune(u)), 1 + width, ""
}
