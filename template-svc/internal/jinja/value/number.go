package value

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Numbers are read as Python's int() and float() read them: whitespace
// around, underscores between, digits of any script.

// floatText writes |f| in the manner of a conversion code: e, f, g (also in
// capitals), or r for repr. alt keeps the point and trailing zeros.
func floatText(f float64, code byte, prec int, alt bool) string {
	f = math.Abs(f)
	upper := code >= 'A' && code <= 'Z'
	var s string
	switch {
	case math.IsInf(f, 0):
		s = "inf"
	case math.IsNaN(f):
		s = "nan"
	default:
		switch code | 0x20 {
		case 'r':
			s = FloatRepr(f)
		case 'g', 'n':
			s = generalText(f, prec, alt)
		default:
			s = strconv.FormatFloat(f, code|0x20, prec, 64)
			if alt && prec == 0 {
				s = addPoint(s)
			}
		}
	}
	if upper {
		s = strings.ToUpper(s)
	}
	return s
}

// addPoint puts a decimal point at the end of the digits, before an
// exponent.
func addPoint(s string) string {
	if e := strings.IndexByte(s, 'e'); e >= 0 {
		return s[:e] + "." + s[e:]
	}
	return s + "."
}

// generalText is %g: prec significant digits, exponent form below 1e-4 and
// from 10**prec, no trailing zeros unless alt.
func generalText(f float64, prec int, alt bool) string {
	if prec == 0 {
		prec = 1
	}
	s := strconv.FormatFloat(f, 'e', prec-1, 64)
	e := strings.IndexByte(s, 'e')
	exp, _ := strconv.Atoi(s[e+1:])
	if exp < -4 || exp >= prec {
		mantissa, tail := s[:e], s[e:]
		if !alt {
			mantissa = trimZeros(mantissa)
		} else if prec == 1 {
			mantissa += "."
		}
		return mantissa + tail
	}
	s = strconv.FormatFloat(f, 'f', prec-1-exp, 64)
	if !alt {
		return trimZeros(s)
	}
	if !strings.Contains(s, ".") {
		s += "."
	}
	return s
}

// trimZeros takes off zeros after the point, and the point if nothing is
// left.
func trimZeros(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// ParseInt is Python's int(text, base): surrounding whitespace, a sign, single
// underscores and, for base 0 or a fitting base, a prefix. ok is false for what
// Python refuses.
func ParseInt(text string, base int) (v Value, ok bool, err error) {
	s := asciiDigits(Strip(text))
	neg := false
	if s != "" && (s[0] == '+' || s[0] == '-') {
		neg = s[0] == '-'
		s = s[1:]
	}
	s, base, ok = intPrefix(s, base)
	if !ok || s == "" || s[0] == '_' || strings.Contains(s, "__") || strings.HasSuffix(s, "_") ||
		strings.ContainsAny(s, "+-") {
		return Value{}, false, nil
	}
	s = strings.ReplaceAll(s, "_", "")
	if i, err := strconv.ParseInt(s, base, 64); err == nil {
		if neg {
			i = -i
		}
		return Int(i), true, nil
	}
	if len(s) > maxIntDigits && base&(base-1) != 0 {
		return Value{}, false, pyerr.Newf(pyerr.Value, "Exceeds the limit (4300 digits) for integer string conversion: "+
			"value has %d digits; use sys.set_int_max_str_digits() to increase the limit", len(s))
	}
	b, ok := new(big.Int).SetString(s, base)
	if !ok {
		return Value{}, false, nil
	}
	if neg {
		b.Neg(b)
	}
	return Big(b), true, nil
}

// intPrefix takes 0x, 0o, 0b off s where the base allows it.
func intPrefix(s string, base int) (string, int, bool) {
	if len(s) > 1 && s[0] == '0' {
		prefix := map[byte]int{'x': 16, 'o': 8, 'b': 2}[s[1]|0x20]
		if prefix != 0 && (base == 0 || base == prefix) {
			return strings.TrimPrefix(s[2:], "_"), prefix, true
		}
	}
	if base == 0 {
		zeros := strings.Trim(s, "0_") == ""
		return s, 10, zeros || s == "" || s[0] != '0'
	}
	return s, base, true
}

// asciiDigits turns decimal digits of any script into ASCII.
func asciiDigits(s string) string {
	if isASCII(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r < 0x80 || !unicode.Is(unicode.Nd, r) {
			return r
		}
		// Decimal digits stand in runs of ten or a multiple, from a zero on.
		start := r
		for unicode.Is(unicode.Nd, start-1) {
			start--
		}
		return '0' + (r-start)%10
	}, s)
}

// ParseFloat is Python's float(text); ok is false for what Python refuses.
func ParseFloat(text string) (f float64, ok bool) {
	s := asciiDigits(Strip(text))
	if strings.Contains(s, "_") {
		for i := range len(s) {
			if s[i] == '_' && (i == 0 || i == len(s)-1 || !isDigit(s[i-1]) || !isDigit(s[i+1])) {
				return 0, false
			}
		}
		s = strings.ReplaceAll(s, "_", "")
	}
	if strings.ContainsAny(s, "xXpP") {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, s != ""
}

// TruncFloat is Python's int(f).
func TruncFloat(f float64) (Value, error) {
	switch {
	case math.IsNaN(f):
		return Value{}, pyerr.New(pyerr.Value, "cannot convert float NaN to integer")
	case math.IsInf(f, 0):
		return Value{}, pyerr.New(pyerr.Overflow, "cannot convert float infinity to integer")
	case math.Abs(f) < 1<<62:
		return Int(int64(f)), nil
	}
	b, _ := big.NewFloat(f).Int(nil)
	return Big(b), nil
}
