package value

import (
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Format specifications are parsed once per use; they are a few bytes long.

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
