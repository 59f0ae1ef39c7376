package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// str.format looks its fields up through the sandbox, so that
// "{0.__class__}" is as undefined as x.__class__.

// formatFields resolves the fields of str.format within the sandbox.
type formatFields struct {
	r *run
	a *args
	// mapping holds the names of format_map.
	mapping value.Value
}

// Arg gives a positional argument.
func (f *formatFields) Arg(i int) (value.Value, error) {
	if i >= len(f.a.pos) {
		return value.Value{}, pyerr.New(pyerr.Index, "tuple index out of range")
	}
	return f.a.pos[i], nil
}

// Named gives a keyword argument, or an entry of format_map's mapping.
func (f *formatFields) Named(name string) (value.Value, error) {
	if f.mapping.Kind() == value.KindDict {
		if v, ok := f.mapping.AsDict().GetStr(name); ok {
			return v, nil
		}
	}
	for _, k := range f.a.kw {
		if k.name == name {
			return k.value, nil
		}
	}
	return value.Value{}, pyerr.New(pyerr.Key, value.ReprString(name))
}

// Attr is attribute access of the sandbox.
func (f *formatFields) Attr(v value.Value, name string) (value.Value, error) { return getAttr(v, name) }

// Item is item access of the sandbox.
func (f *formatFields) Item(v, key value.Value) (value.Value, error) { return getItem(f.r, v, key) }

// strFormat is str.format(...) within the sandbox.
func strFormat(r *run, self value.Value, a *args) (value.Value, error) {
	return value.Format(&r.m, self, &formatFields{r: r, a: a})
}

// strFormatMap is str.format_map(mapping) within the sandbox.
func strFormatMap(r *run, self value.Value, a *args) (value.Value, error) {
	if len(a.kw) > 0 {
		return self, typeError("format_map() takes no keyword arguments")
	}
	if len(a.pos) != 1 {
		return self, typeError("format_map() takes exactly one argument (%d given)", len(a.pos))
	}
	return value.Format(&r.m, self, &formatFields{r: r, a: &args{}, mapping: a.pos[0]})
}
