package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// The operator ~ joins the texts of its operands, however many, at once.

// concat compiles a chain of ~: the texts of all operands, joined.
func (c *compiler) concat(n *syntax.Concat, s *scope) exprFunc {
	parts := make([]exprFunc, len(n.Nodes))
	for i, e := range n.Nodes {
		parts[i] = c.expr(e, s)
	}
	escaping := c.escaping
	return func(f *frame) (value.Value, error) {
		var space [textParts]value.Value
		vals := space[:0]
		for _, p := range parts {
			v, err := p(f)
			if err != nil {
				return value.Value{}, err
			}
			vals = append(vals, v)
		}
		v, err := concatValues(f, vals, escaping)
		return v, at(err, n)
	}
}

// concatValues joins the texts of values; with escaping on, one Markup among
// them makes the result Markup and escapes the rest.
func concatValues(f *frame, vals []value.Value, escaping bool) (value.Value, error) {
	p := value.Printer{Meter: &f.r.m}
	markup := false
	if escaping && f.r.autoescape {
		for _, v := range vals {
			markup = markup || v.IsMarkup()
		}
	}
	for _, v := range vals {
		start := len(p.Buf)
		if err := p.Str(v); err != nil {
			return value.Value{}, err
		}
		if markup && !v.IsMarkup() {
			p.Buf = append(p.Buf[:start], value.Escape(string(p.Buf[start:]))...)
		}
	}
	return value.StrOfBytes(p.Buf).WithMarkup(markup), nil
}
