package value

import (
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// Output is json.dumps's, HTML left alone.

// jsonFloat is a float as json.dumps writes it, JSON or not.
func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return FloatRepr(f)
}

// jsonString appends a string literal.
func (p *Printer) jsonString(s string, st *JSONStyle) error {
	if err := p.Meter.Bytes(len(s) + 2); err != nil {
		return err
	}
	before := len(p.Buf)
	p.Buf = appendJSONString(p.Buf, s, st.ASCII)
	return p.Meter.Bytes(len(p.Buf) - before - len(s) - 2)
}

// jsonShort are the letters of the short escapes of control characters.
var jsonShort = [...]byte{'\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r'}

// appendJSONString appends a string literal: controls, quotes and
// backslashes are escaped, and with ascii all beyond.
func appendJSONString(b []byte, s string, ascii bool) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && (!ascii || c < 0x7f) {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		n := 1
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case int(c) < len(jsonShort) && jsonShort[c] != 0:
			b = append(b, '\\', jsonShort[c])
		case c < utf8.RuneSelf:
			b = appendUnicode(b, rune(c))
		default:
			var r rune
			r, n = utf8.DecodeRuneInString(s[i:])
			if lone, ok := loneSurrogate(r); ok {
				r = lone
			}
			if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
				b = appendUnicode(b, hi)
				r = lo
			}
			b = appendUnicode(b, r)
		}
		i += n
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// appendUnicode appends \uXXXX.
func appendUnicode(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}
