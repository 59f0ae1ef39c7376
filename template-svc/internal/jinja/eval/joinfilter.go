package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// join takes members of any type; within an autoescape block a single
// Markup makes the whole result Markup.

var joinSignature = &signature{
	name: "sync_do_join", required: 1, hidden: 1, params: []string{"value", "d", "attribute"},
}

// joinFilter is join(value, d=”, attribute=None).
func joinFilter(r *run, a *args) (value.Value, error) {
	b, err := joinSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	if isMissing(b[1]) {
		b[1] = value.Str("")
	}
	path := newAttrPath(b[2])
	it, err := b[0].Iter()
	if err != nil {
		return value.Value{}, err
	}
	if r.autoescape {
		return joinEscaped(r, it, b[1], &path)
	}
	d, err := value.StrOf(&r.m, b[1])
	if err != nil {
		return value.Value{}, err
	}
	p := value.Printer{Meter: &r.m}
	first := true
	err = r.each(it, func(v value.Value) error {
		v, err := path.get(r, v)
		if err != nil {
			return err
		}
		if !first {
			if err := p.Write(d); err != nil {
				return err
			}
		}
		first = false
		return appendStr(&p, v)
	})
	return value.StrOfBytes(p.Buf), err
}

// appendStr appends str(v), which may run template code, to what p holds.
func appendStr(p *value.Printer, v value.Value) error {
	if v.IsStr() {
		return p.Write(v.AsStr())
	}
	return p.Str(v)
}

// joinEscaped is join within an autoescape block: Markup if any part is.
func joinEscaped(r *run, it value.Iterator, sep value.Value, path *attrPath) (value.Value, error) {
	var parts []value.Value
	markup := sep.IsMarkup()
	err := r.each(it, func(v value.Value) error {
		v, err := path.get(r, v)
		if err != nil {
			return err
		}
		markup = markup || v.IsMarkup()
		parts = append(parts, v)
		return r.m.Bytes(cellBytes)
	})
	if err != nil {
		return value.Value{}, err
	}
	text := func(v value.Value) (string, error) {
		if markup {
			return escaped(r, v)
		}
		return value.StrOf(&r.m, v)
	}
	p := value.Printer{Meter: &r.m}
	d, err := text(sep)
	if err != nil {
		return value.Value{}, err
	}
	for i, v := range parts {
		s, err := text(v)
		if err == nil && i > 0 {
			err = p.Write(d)
		}
		if err == nil {
			err = p.Write(s)
		}
		if err != nil {
			return value.Value{}, err
		}
	}
	return value.StrOfBytes(p.Buf).WithMarkup(markup), nil
}
