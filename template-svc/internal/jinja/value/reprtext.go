package value

import (
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// The texts of numbers and strings within containers.

// bigText is str of a big int: ValueError above CPython's digit limit.
func bigText(v Value) (string, error) {
	b := v.AsBig()
	// A digit is at least 3.32 bits: the check spares a costly conversion.
	if float64(b.BitLen()) > (maxIntDigits+1)*3.33 {
		return "", errDigits()
	}
	s := b.String()
	digits := len(s)
	if s[0] == '-' {
		digits--
	}
	if digits > maxIntDigits {
		return "", errDigits()
	}
	return s, nil
}

// errDigits is CPython's refusal to print a very long int.
func errDigits() error {
	return pyerr.New(pyerr.Value, "Exceeds the limit (4300 digits) for integer string conversion; "+
		"use sys.set_int_max_str_digits() to increase the limit")
}

// FloatRepr is Python's repr of a float: the shortest digits that read back
// equal, in exponent form below 1e-4 and from 1e16.
func FloatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case f == 0:
		if math.Signbit(f) {
			return "-0.0"
		}
		return "0.0"
	}
	if a := math.Abs(f); a < 1e-4 || a >= 1e16 {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if f == math.Trunc(f) {
		s += ".0"
	}
	return s
}

// ReprString is Python's repr of a str.
func ReprString(s string) string { return string(AppendReprString(nil, s)) }

// AppendReprString appends Python's repr of a str: single quotes unless only
// those occur in s, escapes for what is not printable.
func AppendReprString(b []byte, s string) []byte {
	quote := byte('\'')
	single, double := false, false
	for i := 0; i < len(s); i++ {
		single = single || s[i] == '\''
		double = double || s[i] == '"'
	}
	if single && !double {
		quote = '"'
	}
	b = append(b, quote)
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			b = appendReprByte(b, c, quote)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if lone, ok := loneSurrogate(r); ok {
			b = appendRuneEscape(b, lone)
		} else if unicode.IsPrint(r) {
			b = append(b, s[i:i+n]...)
		} else {
			b = appendRuneEscape(b, r)
		}
		i += n
	}
	return append(b, quote)
}

// appendReprByte appends an ASCII character of a repr.
func appendReprByte(b []byte, c, quote byte) []byte {
	switch {
	case c == quote || c == '\\':
		return append(b, '\\', c)
	case c == '\n':
		return append(b, '\\', 'n')
	case c == '\r':
		return append(b, '\\', 'r')
	case c == '\t':
		return append(b, '\\', 't')
	case c < ' ' || c == 0x7f:
		return appendRuneEscape(b, rune(c))
	}
	return append(b, c)
}

const hexDigits = "0123456789abcdef"

// appendRuneEscape appends \xHH, \uHHHH or \UHHHHHHHH.
func appendRuneEscape(b []byte, r rune) []byte {
	width, letter := 8, byte('U')
	if r < 0x100 {
		width, letter = 2, 'x'
	} else if r < 0x10000 {
		width, letter = 4, 'u'
	}
	b = append(b, '\\', letter)
	for shift := 4 * (width - 1); shift >= 0; shift -= 4 {
		b = append(b, hexDigits[r>>shift&15])
	}
	return b
}

// ASCIIRepr is Python's ascii(): a repr whose other characters are escaped.
func ASCIIRepr(repr string) string {
	var b []byte
	for _, r := range repr {
		if r < utf8.RuneSelf {
			b = append(b, byte(r))
		} else {
			b = appendRuneEscape(b, r)
		}
	}
	return string(b)
}

// RuneCount is the number of code points of s.
func RuneCount(s string) int { return utf8.RuneCountInString(s) }
