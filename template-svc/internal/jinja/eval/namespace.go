package eval

import (
	"strconv"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// A namespace is the only thing a template can change, and the only way out
// of a scope.

// newDict is dict(mapping or pairs, **kwargs).
func newDict(r *run, a *args) (*value.Dict, error) {
	if err := r.m.Bytes(objectBytes); err != nil {
		return nil, err
	}
	if len(a.pos) > 1 {
		return nil, typeError("dict expected at most 1 argument, got %d", len(a.pos))
	}
	d := value.NewDict(len(a.kw))
	if len(a.pos) == 1 {
		if a.pos[0].Kind() == value.KindDict {
			src := a.pos[0].AsDict()
			if err := r.m.Product(src.Len(), 2*cellBytes); err != nil {
				return nil, err
			}
			d = src.Clone()
		} else if err := dictOfPairs(r, d, a.pos[0]); err != nil {
			return nil, err
		}
	}
	for _, k := range a.kw {
		if err := r.m.Bytes(2 * cellBytes); err != nil {
			return nil, err
		}
		d.SetStr(k.name, k.value)
	}
	return d, nil
}

// dictOfPairs fills d from an iterable of pairs, with the messages of
// Python's dict().
func dictOfPairs(r *run, d *value.Dict, pairs value.Value) error {
	if pairs.IsUndefined() {
		return value.RaiseUndefined(pairs)
	}
	it, err := pairs.Iter()
	if err != nil {
		return err
	}
	n := 0
	return r.each(it, func(p value.Value) error {
		if !p.CanIter() {
			return typeError("cannot convert dictionary update sequence element #%d to a sequence", n)
		}
		cells, err := r.collect(p)
		if err != nil {
			return err
		}
		if len(cells) != 2 {
			return valueError("dictionary update sequence element #" + strconv.Itoa(n) + " has length " +
				strconv.Itoa(len(cells)) + "; 2 is required")
		}
		n++
		if err := r.key(cells[0]); err != nil {
			return err
		}
		return d.Set(cells[0], cells[1])
	})
}

// namespace is an object whose attributes a template may set. It belongs to
// one render.
type namespace struct{ attrs *value.Dict }

// TypeName is Namespace.
func (n *namespace) TypeName() string { return "Namespace" }

// Module is jinja2.utils.
func (n *namespace) Module() string { return "jinja2.utils" }

// Attr gives an attribute that was set.
func (n *namespace) Attr(name string) (value.Value, bool) { return n.attrs.GetStr(name) }

// AppendRepr prints "<Namespace {...}>".
func (n *namespace) AppendRepr(p *value.Printer) error {
	if err := p.Write("<Namespace "); err != nil {
		return err
	}
	if err := p.Repr(value.OfDict(n.attrs)); err != nil {
		return err
	}
	return p.Write(">")
}
