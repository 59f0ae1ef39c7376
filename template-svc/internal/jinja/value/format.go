package value

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// str.format works through its text once; fields may stand within
// specifications, two levels deep.

// Fields resolves the replacement fields of a format string; attribute and
// item access go through the sandbox's rules.
type Fields interface {
	Arg(i int) (Value, error)
	Named(name string) (Value, error)
	Attr(v Value, name string) (Value, error)
	Item(v, key Value) (Value, error)
}

// formatter is one run of str.format.
type formatter struct {
	m      *limit.Meter
	fields Fields
	markup bool
	auto   int // next automatic index; -1 once a field was numbered by hand
	manual bool
}

// Format is text.format(...) with the fields given.
func Format(m *limit.Meter, text Value, fields Fields) (Value, error) {
	f := formatter{m: m, fields: fields, markup: text.markup}
	s, err := f.run(text.AsStr(), 2)
	return Str(s).WithMarkup(text.markup), err
}

// run writes s with its fields replaced; depth is how often a field may
// stand within another's specification.
func (f *formatter) run(s string, depth int) (string, error) {
	if depth < 0 {
		return "", pyerr.New(pyerr.Value, "Max string recursion exceeded")
	}
	var out strings.Builder
	for s != "" {
		if err := f.m.Step(); err != nil {
			return "", err
		}
		at := strings.IndexAny(s, "{}")
		if at < 0 {
			at = len(s)
		}
		if err := f.m.Bytes(at); err != nil {
			return "", err
		}
		out.WriteString(s[:at])
		if s = s[at:]; s == "" {
			break
		}
		if len(s) > 1 && s[1] == s[0] {
			out.WriteByte(s[0])
			s = s[2:]
			continue
		}
		if s[0] == '}' {
			return "", pyerr.New(pyerr.Value, "Single '}' encountered in format string")
		}
		field, rest, err := cutField(s[1:])
		if err != nil {
			return "", err
		}
		text, err := f.field(field, depth)
		if err != nil {
			return "", err
		}
		if err := f.m.Bytes(len(text)); err != nil {
			return "", err
		}
		out.WriteString(text)
		s = rest
	}
	return out.String(), nil
}

// field resolves, converts and formats one replacement field.
func (f *formatter) field(field string, depth int) (string, error) {
	name, conv, spec, err := splitField(field)
	if err != nil {
		return "", err
	}
	if strings.ContainsRune(name, '{') {
		return "", pyerr.New(pyerr.Value, "unexpected '{' in field name")
	}
	v, err := f.lookup(name)
	if err != nil {
		return "", err
	}
	switch conv {
	case 0:
	case 's', 'r', 'a':
		s, err := StrOf(f.m, v)
		if conv != 's' {
			s, err = ReprOf(f.m, v)
		}
		if err != nil {
			return "", err
		}
		if conv == 'a' {
			s = ASCIIRepr(s)
		}
		v = Str(s)
	default:
		return "", pyerr.Newf(pyerr.Value, "Unknown conversion specifier %c", conv)
	}
	if spec, err = f.run(spec, depth-1); err != nil {
		return "", err
	}
	if f.markup && v.IsMarkup() && spec != "" {
		return "", pyerr.New(pyerr.Value, "Unsupported format specification for Markup.")
	}
	text, err := FormatSpec(f.m, v, spec)
	if f.markup && !v.IsMarkup() {
		text = Escape(text)
	}
	return text, err
}
