package value

import (
	"strconv"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
)

// A Printer gathers the text of one value. Containers print the reprs of
// their members, so str and repr differ for strings and undefined alone.

// maxDepth bounds every recursion over a value's members. JSON input nests at
// most 500 deep and CPython itself gives up near 1,000; a template can nest
// deeper by wrapping a value again and again.
const maxDepth = 1000

// errDepth is what a deeper value ends a render with.
func errDepth() error { return &limit.Error{Kind: limit.Depth, Max: maxDepth} }

// Printer writes texts of values, charging Meter; it is for one render.
type Printer struct {
	Buf   []byte
	Meter *limit.Meter
	depth int
}

// Write appends s.
func (p *Printer) Write(s string) error {
	if err := p.Meter.Bytes(len(s)); err != nil {
		return err
	}
	p.Buf = append(p.Buf, s...)
	return nil
}

// Str appends Python's str(v).
func (p *Printer) Str(v Value) error {
	switch v.k {
	case KindStr:
		return p.Write(v.AsStr())
	case KindUndefined:
		return nil
	}
	return p.Repr(v)
}

// Repr appends Python's repr(v).
func (p *Printer) Repr(v Value) error {
	switch v.k {
	case KindUndefined:
		return p.Write("Undefined")
	case KindNone:
		return p.Write("None")
	case KindBool:
		if v.AsBool() {
			return p.Write("True")
		}
		return p.Write("False")
	case KindInt:
		if err := p.Meter.Bytes(8); err != nil {
			return err
		}
		p.Buf = strconv.AppendInt(p.Buf, v.AsInt(), 10)
		return nil
	case KindBig:
		s, err := bigText(v)
		if err != nil {
			return err
		}
		return p.Write(s)
	case KindFloat:
		return p.Write(FloatRepr(v.AsFloat()))
	case KindStr:
		return p.reprStr(v)
	case KindBytes:
		return p.reprBytes(v.AsStr())
	}
	return p.container(v)
}

// reprStr appends the repr of a str or Markup.
func (p *Printer) reprStr(v Value) error {
	s := v.AsStr()
	if err := p.Meter.Bytes(len(s) + 2); err != nil {
		return err
	}
	if err := p.Meter.Chars(len(s)); err != nil {
		return err
	}
	if v.markup {
		p.Buf = append(p.Buf, "Markup("...)
	}
	p.Buf = AppendReprString(p.Buf, s)
	if v.markup {
		p.Buf = append(p.Buf, ')')
	}
	return nil
}

// container appends the repr of what has members, one level deeper.
func (p *Printer) container(v Value) error {
	if p.depth++; p.depth > maxDepth {
		return errDepth()
	}
	defer func() { p.depth-- }()
	switch v.k {
	case KindList:
		return p.cells("[", v.Cells(), "]")
	case KindTuple:
		end := ")"
		if v.n == 1 {
			end = ",)"
		}
		return p.cells("(", v.Cells(), end)
	case KindDict:
		return p.Entries(v.AsDict())
	}
	if o, ok := v.AsObject().(Printable); ok {
		return o.AppendRepr(p)
	}
	return p.Write("<" + v.TypeName() + " object>")
}

// cells appends the reprs of members between brackets.
func (p *Printer) cells(open string, cells []Value, end string) error {
	if err := p.Write(open); err != nil {
		return err
	}
	for i, c := range cells {
		if i > 0 {
			p.Buf = append(p.Buf, ", "...)
		}
		if err := p.Repr(c); err != nil {
			return err
		}
	}
	if err := p.Meter.Work(len(cells)); err != nil {
		return err
	}
	return p.Write(end)
}

// Entries appends the repr of a dict.
func (p *Printer) Entries(d *Dict) error {
	if err := p.Write("{"); err != nil {
		return err
	}
	for i := range d.entries {
		if i > 0 {
			p.Buf = append(p.Buf, ", "...)
		}
		if err := p.Repr(d.entries[i].Key); err != nil {
			return err
		}
		p.Buf = append(p.Buf, ": "...)
		if err := p.Repr(d.entries[i].Val); err != nil {
			return err
		}
	}
	if err := p.Meter.Work(len(d.entries)); err != nil {
		return err
	}
	return p.Write("}")
}

// StrOf is Python's str(v) as a Go string.
func StrOf(m *limit.Meter, v Value) (string, error) {
	if v.k == KindStr {
		return v.AsStr(), nil
	}
	p := Printer{Meter: m}
	err := p.Str(v)
	return string(p.Buf), err
}

// ReprOf is Python's repr(v) as a Go string.
func ReprOf(m *limit.Meter, v Value) (string, error) {
	p := Printer{Meter: m}
	err := p.Repr(v)
	return string(p.Buf), err
}
