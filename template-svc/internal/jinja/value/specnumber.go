package value

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Numbers are built from sign, digits and tail, grouped, then padded.

// isNegative reports a sign that is printed; NaN has none.
func isNegative(f float64) bool { return math.Signbit(f) && !math.IsNaN(f) }

// signText is what stands before a number.
func (s *spec) signText(neg bool) string {
	switch {
	case neg:
		return "-"
	case s.sign == '+' || s.sign == ' ':
		return string(s.sign)
	}
	return ""
}

// integer formats an int, as a float if the code asks for it.
func (s *spec) integer(v Value) (string, error) {
	base, prefix := 10, ""
	switch s.code {
	case 0, 'd', 'n':
	case 'b':
		base, prefix = 2, "0b"
	case 'o':
		base, prefix = 8, "0o"
	case 'x':
		base, prefix = 16, "0x"
	case 'X':
		base, prefix = 16, "0X"
	case 'c':
		return s.char(v)
	case 'e', 'E', 'f', 'F', 'g', 'G', '%':
		f, err := ToFloat(v)
		if err != nil {
			return "", err
		}
		return s.float(f)
	default:
		return "", s.unknown()
	}
	if s.prec >= 0 {
		return "", pyerr.New(pyerr.Value, "Precision not allowed in integer format specifier")
	}
	if s.noNegZero {
		return "", pyerr.New(pyerr.Value, "Negative zero coercion (z) not allowed in format specifier with integer presentation type")
	}
	digits, neg, err := intDigits(v, base)
	if err != nil {
		return "", err
	}
	if s.code == 'X' {
		digits = strings.ToUpper(digits)
	}
	if !s.alt {
		prefix = ""
	}
	size := 3
	if base != 10 {
		size = 4
	}
	return s.number(s.signText(neg)+prefix, digits, "", size), nil
}

// char formats an int as the character of that code point.
func (s *spec) char(v Value) (string, error) {
	if s.sign != 0 {
		return "", pyerr.New(pyerr.Value, "Sign not allowed with integer format specifier 'c'")
	}
	if s.alt {
		return "", pyerr.New(pyerr.Value, "Alternate form (#) not allowed with integer format specifier 'c'")
	}
	if v.k == KindBig {
		return "", pyerr.New(pyerr.Overflow, "Python int too large to convert to C long")
	}
	if v.AsInt() < 0 || v.AsInt() > utf8.MaxRune {
		return "", pyerr.New(pyerr.Overflow, "%c arg not in range(0x110000)")
	}
	return s.pad("", string(rune(v.AsInt())), '<'), nil
}

// float formats a float; without code it is repr, or g with a digit after
// the point.
func (s *spec) float(f float64) (string, error) {
	code, prec, tail := s.code, s.prec, ""
	switch code {
	case 0:
		code = 'r'
		if prec >= 0 {
			code = 'g'
		}
	case '%':
		f *= 100
		code, tail = 'f', "%"
	case 'n':
		code = 'g'
	case 'e', 'E', 'f', 'F', 'g', 'G':
	default:
		return "", s.unknown()
	}
	if prec < 0 {
		prec = 6
	}
	body := floatText(f, byte(code), prec, s.alt)
	if s.code == 0 && s.prec >= 0 {
		body = s.shortFloat(f, body)
	}
	neg := isNegative(f)
	if s.noNegZero && strings.Trim(body, "0.") == "" {
		neg = false
	}
	whole := body
	for i := range len(body) {
		if !isDigit(body[i]) {
			whole = body[:i]
			break
		}
	}
	if whole == "" { // inf and nan are not grouped
		return s.pad(s.signText(neg), body+tail, '>'), nil
	}
	return s.number(s.signText(neg), whole, body[len(whole):]+tail, 3), nil
}

// shortFloat is the format without a code but with a precision: like g, but
// with at least one digit after the point, and an exponent one digit sooner.
func (s *spec) shortFloat(f float64, body string) string {
	prec := max(s.prec, 1)
	a := math.Abs(f)
	if math.IsInf(a, 0) || math.IsNaN(a) || strings.Contains(body, "e") {
		return body
	}
	if a != 0 && a >= math.Pow(10, float64(prec-1)) {
		text := floatText(f, 'e', prec-1, s.alt)
		e := strings.IndexByte(text, 'e')
		return trimZeros(text[:e]) + text[e:]
	}
	if !strings.Contains(body, ".") {
		body += ".0"
	}
	return body
}

// number groups the whole digits by size and pads; zeros that fill the width
// are grouped too.
func (s *spec) number(head, whole, tail string, size int) string {
	if s.group != 0 {
		min := 0
		if s.fill == '0' && s.align == '=' {
			min = s.width - len(head) - len(tail)
		}
		whole = groupDigits(whole, s.group, size, min)
	}
	return s.pad(head, whole+tail, '>')
}

// groupDigits puts sep between groups of size digits, from the right, after
// filling up with zeros to min characters.
func groupDigits(digits string, sep byte, size, min int) string {
	var rev []byte
	n := 0
	for i := len(digits) - 1; i >= 0 || len(rev) < min; i-- {
		if n == size {
			rev = append(rev, sep)
			n = 0
		}
		c := byte('0')
		if i >= 0 {
			c = digits[i]
		}
		rev = append(rev, c)
		n++
	}
	reverse(rev)
	return string(rev)
}
