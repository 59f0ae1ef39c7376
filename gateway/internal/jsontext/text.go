package jsontext

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Name is a member's name as it stands in the document.
type Name struct {
	// Start is the offset of the opening quote.
	Start int
	raw   []byte
}

// name reads a member's name and its colon.
func (r *Reader) name() (Name, error) {
	start := r.pos
	if err := r.skipString(); err != nil {
		return Name{}, err
	}
	n := Name{Start: start, raw: r.doc[start+1 : r.pos-1]}
	return n, r.colon()
}

// Is compares exactly; case counts, and an escaped spelling of the same name is the same name.
func (n Name) Is(s string) bool {
	if bytes.IndexByte(n.raw, '\\') < 0 {
		return string(n.raw) == s
	}
	return n.Text() == s
}

// Text is the name with its escapes resolved.
func (n Name) Text() string { return string(unescape(n.raw)) }

// StringOf is the content of a string value with its escapes resolved. A lone surrogate becomes U+FFFD.
func StringOf(doc []byte, v Value) string {
	if v.Kind != String {
		return ""
	}
	return string(unescape(doc[v.Start+1 : v.End-1]))
}

// IntOf is the value of a number written as an integer that fits into 64 bits, or written as a float that is whole.
func IntOf(doc []byte, v Value) (int64, bool) {
	if v.Kind != Number {
		return 0, false
	}
	text := string(v.Text(doc))
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != float64(int64(f)) {
		return 0, false
	}
	return int64(f), true
}

// unescape resolves escapes. Without any it returns raw itself.
func unescape(raw []byte) []byte {
	i := bytes.IndexByte(raw, '\\')
	if i < 0 {
		return raw
	}
	out := append(make([]byte, 0, len(raw)), raw[:i]...)
	for i < len(raw) {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		n := escape(raw[i:])
		if n == 0 {
			return append(out, raw[i:]...)
		}
		if n == 2 {
			out = append(out, plainEscape(raw[i+1]))
			i += n
			continue
		}
		r := hex4(raw[i+2:])
		i += n
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if escape(raw[i:]) == 6 {
				low = hex4(raw[i+2:])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				i += 6
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

func plainEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

const hexDigits = "0123456789abcdef"

// AppendQuoted appends s as a JSON string. Everything that need not be escaped stays as it is.
func AppendQuoted(dst []byte, s []byte) []byte {
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// Quote is s as a JSON string.
func Quote(s string) []byte { return AppendQuoted(make([]byte, 0, len(s)+2), []byte(s)) }
