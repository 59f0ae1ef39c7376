package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// groupby gives pairs that also answer to grouper and list, print as tuples
// and are lists in JSON.

// groupByFilter is groupby(value, attribute, default=None,
// case_sensitive=False): sorted first; a group shows the key of its first
// member as written.
func groupByFilter(r *run, b []value.Value) (value.Value, error) {
	path := newAttrPath(b[1])
	if given(b[2]) {
		path.def, path.hasDef = b[2], true
	}
	plain := path
	path.fold = !b[3].Truth()
	cells, err := r.collect(b[0])
	if err != nil {
		return value.Value{}, err
	}
	keys := make([]value.Value, len(cells))
	for i, c := range cells {
		if keys[i], err = path.get(r, c); err != nil {
			return value.Value{}, err
		}
	}
	order, err := value.SortOrder(&r.m, keys, false)
	if err != nil {
		return value.Value{}, err
	}
	if err := r.m.Product(len(cells), 4*cellBytes); err != nil {
		return value.Value{}, err
	}
	var out []value.Value
	for i := 0; i < len(order); {
		g := &group{}
		key := keys[order[i]]
		for i < len(order) {
			same, err := value.Equal(&r.m, keys[order[i]], key)
			if err != nil {
				return value.Value{}, err
			}
			if !same {
				break
			}
			g.list = append(g.list, cells[order[i]])
			i++
		}
		g.grouper = key
		if path.fold {
			if g.grouper, err = plain.get(r, g.list[0]); err != nil {
				return value.Value{}, err
			}
		}
		out = append(out, value.OfObject(g))
	}
	return value.List(out), nil
}

// group is one result of groupby: a pair that also has names.
type group struct {
	grouper value.Value
	list    []value.Value
}

// TypeName is _GroupTuple.
func (g *group) TypeName() string { return "_GroupTuple" }

// Module is jinja2.filters.
func (g *group) Module() string { return "jinja2.filters" }

// Cells gives the pair.
func (g *group) Cells() []value.Value { return []value.Value{g.grouper, value.List(g.list)} }

// Len is 2.
func (g *group) Len() (int, error) { return 2, nil }

// Iter walks the pair.
func (g *group) Iter() value.Iterator { return value.FromCells(g.Cells()) }

// Item gives a part by index.
func (g *group) Item(key value.Value) (value.Value, bool) {
	i, ok := index(key, 2)
	if !ok {
		return value.Value{}, false
	}
	return g.Cells()[i], true
}

// Attr gives a part by name.
func (g *group) Attr(name string) (value.Value, bool) {
	switch name {
	case "grouper":
		return g.grouper, true
	case "list":
		return value.List(g.list), true
	}
	return value.Value{}, false
}

// AppendRepr prints the pair as a tuple.
func (g *group) AppendRepr(p *value.Printer) error { return p.Repr(value.Tuple(g.Cells())) }
