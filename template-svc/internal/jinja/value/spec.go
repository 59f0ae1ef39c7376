package value

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// spec is Python's format specification:
// [[fill]align][sign][z][#][0][width][grouping][.precision][code].
type spec struct {
	fill         rune
	align        byte // 0 = not given
	sign         byte // 0 = not given
	noNegZero    bool
	alt          bool
	width, prec  int // -1 = not given
	group        byte
	code         rune // 0 = not given
	typeName     string
	fillWasGiven bool
}

// isNegative reports a sign that is printed; NaN has none.
func isNegative(f float64) bool { return math.Signbit(f) && !math.IsNaN(f) }

// isAlign reports an alignment sign.
func isAlign(c byte) bool { return c == '<' || c == '>' || c == '=' || c == '^' }

// parseSpec reads a specification for a value of the named type.
func parseSpec(text, typeName string) (spec, error) {
	s := spec{fill: ' ', width: -1, prec: -1, typeName: typeName}
	if r, n := utf8.DecodeRuneInString(text); n < len(text) && isAlign(text[n]) {
		s.fill, s.align, s.fillWasGiven = r, text[n], true
		text = text[n+1:]
	} else if text != "" && isAlign(text[0]) {
		s.align = text[0]
		text = text[1:]
	}
	take := func(set string) byte {
		if text != "" && strings.IndexByte(set, text[0]) >= 0 {
			c := text[0]
			text = text[1:]
			return c
		}
		return 0
	}
	s.sign = take("+- ")
	s.noNegZero = take("z") != 0
	s.alt = take("#") != 0
	if !s.fillWasGiven && take("0") != 0 {
		s.fill = '0'
		if s.align == 0 && typeName != "str" {
			s.align = '='
		}
	}
	var err error
	if s.width, text, err = specNumber(text); err != nil {
		return s, err
	}
	s.group = take(",_")
	if s.group != 0 && text != "" && (text[0] == ',' || text[0] == '_') {
		if text[0] == s.group && s.group == '_' {
			return s, pyerr.New(pyerr.Value, "Cannot specify '_' with '_'.")
		}
		if text[0] != s.group {
			return s, pyerr.New(pyerr.Value, "Cannot specify both ',' and '_'.")
		}
		return s, pyerr.New(pyerr.Value, "Cannot specify ',' with ','.")
	}
	if take(".") != 0 {
		if s.prec, text, err = specNumber(text); err != nil {
			return s, err
		}
		if s.prec < 0 {
			return s, pyerr.New(pyerr.Value, "Format specifier missing precision")
		}
	}
	return s.finish(text)
}

// finish reads the code, the last part, and checks that it fits the
// grouping.
func (s spec) finish(text string) (spec, error) {
	whole := text
	if text != "" {
		r, n := utf8.DecodeRuneInString(text)
		s.code = r
		text = text[n:]
	}
	if text != "" {
		return s, pyerr.Newf(pyerr.Value, "Invalid format specifier '%s' for object of type '%s'", whole, s.typeName)
	}
	if s.group != 0 && s.code != 0 && !strings.ContainsRune("deEfFgG%", s.code) &&
		(s.group == ',' || !strings.ContainsRune("boxX", s.code)) {
		return s, pyerr.Newf(pyerr.Value, "Cannot specify '%c' with '%c'.", s.group, s.code)
	}
	if s.group != 0 && s.code == 0 && s.typeName == "str" {
		return s, pyerr.Newf(pyerr.Value, "Cannot specify '%c' with 's'.", s.group)
	}
	return s, nil
}

// specNumber reads a width or precision, -1 if there is none.
func specNumber(text string) (n int, rest string, err error) {
	i := 0
	for i < len(text) && isDigit(text[i]) {
		n = n*10 + int(text[i]-'0')
		if n > 1<<31-1 {
			return 0, "", pyerr.New(pyerr.Value, "Too many decimal digits in format string")
		}
		i++
	}
	if i == 0 {
		return -1, text, nil
	}
	return n, text[i:], nil
}

// FormatSpec is Python's format(v, spec).
func FormatSpec(m *limit.Meter, v Value, text string) (string, error) {
	if text == "" {
		return StrOf(m, v)
	}
	if v.k != KindStr && !v.IsNumber() {
		return "", pyerr.Newf(pyerr.Type, "unsupported format string passed to %s.__format__", v.TypeName())
	}
	s, err := parseSpec(text, v.TypeName())
	if err != nil {
		return "", withSpec(err, text)
	}
	if err := m.Pad(int64(max(s.width, s.prec))); err != nil {
		return "", err
	}
	if err := m.Bytes(max(s.width, 0) + max(s.prec, 0)); err != nil {
		return "", err
	}
	switch {
	case v.k == KindStr:
		return s.text(v.AsStr())
	case v.k == KindFloat:
		return s.float(v.AsFloat())
	}
	return s.integer(v)
}

// withSpec puts the whole specifier into the message that quotes it.
func withSpec(err error, text string) error {
	e, ok := err.(*pyerr.Error)
	if ok && strings.HasPrefix(e.Message, "Invalid format specifier '") {
		tail := e.Message[strings.LastIndex(e.Message, "' for object"):]
		e.Message = "Invalid format specifier '" + text + tail
	}
	return err
}

// unknown is the error of a code that the type does not know.
func (s *spec) unknown() error {
	if s.code > 32 && s.code < 128 {
		return pyerr.Newf(pyerr.Value, "Unknown format code '%c' for object of type '%s'", s.code, s.typeName)
	}
	return pyerr.Newf(pyerr.Value, "Unknown format code '\\x%x' for object of type '%s'", s.code, s.typeName)
}

// text formats a string.
func (s *spec) text(v string) (string, error) {
	switch {
	case s.code != 0 && s.code != 's':
		return "", s.unknown()
	case s.sign == ' ':
		return "", pyerr.New(pyerr.Value, "Space not allowed in string format specifier")
	case s.sign != 0:
		return "", pyerr.New(pyerr.Value, "Sign not allowed in string format specifier")
	case s.noNegZero:
		return "", pyerr.New(pyerr.Value, "Negative zero coercion (z) not allowed in string format specifier")
	case s.alt:
		return "", pyerr.New(pyerr.Value, "Alternate form (#) not allowed in string format specifier")
	case s.align == '=':
		return "", pyerr.New(pyerr.Value, "'=' alignment not allowed in string format specifier")
	}
	if s.prec >= 0 {
		v = v[:Offset(v, s.prec)]
	}
	return s.pad("", v, '<'), nil
}

// pad sets head and body into the width; def is the alignment if none is given.
func (s *spec) pad(head, body string, def byte) string {
	n := s.width - RuneCount(head) - RuneCount(body)
	if n <= 0 {
		return head + body
	}
	align := s.align
	if align == 0 {
		align = def
	}
	fill := func(k int) string { return strings.Repeat(string(s.fill), k) }
	switch align {
	case '<':
		return head + body + fill(n)
	case '^':
		return fill(n/2) + head + body + fill(n-n/2)
	case '=':
		return head + fill(n) + body
	}
	return fill(n) + head + body
}

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
