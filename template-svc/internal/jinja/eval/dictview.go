package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// keys(), values() and items() are views: they have a length and can be
// walked both ways, but not indexed, and JSON does not know them.

// dictView is dict.keys(), values() or items().
type dictView struct {
	name string
	dict *value.Dict
}

// TypeName is dict_keys, dict_values or dict_items.
func (d *dictView) TypeName() string { return "dict_" + d.name }

// Unhashable reports that keys and items, being set-like, are no dict keys.
func (d *dictView) Unhashable() bool { return d.name != "values" }

// Len is the number of entries.
func (d *dictView) Len() (int, error) { return d.dict.Len(), nil }

// cell is what the view shows of an entry.
func (d *dictView) cell(e value.Entry) value.Value {
	switch d.name {
	case "keys":
		return e.Key
	case "values":
		return e.Val
	}
	return value.Tuple([]value.Value{e.Key, e.Val})
}

// viewIter walks a view; step is 1 or -1.
type viewIter struct {
	view     *dictView
	at, step int
}

// Next gives the next entry in the direction of step.
func (it *viewIter) Next() (value.Value, bool, error) {
	es := it.view.dict.Entries()
	if it.at < 0 || it.at >= len(es) {
		return value.Value{}, false, nil
	}
	it.at += it.step
	return it.view.cell(es[it.at-it.step]), true, nil
}

// Contains looks a key up; the other views are searched.
func (d *dictView) Contains(m *limit.Meter, v value.Value) (bool, error) {
	if d.name == "keys" {
		return value.Contains(m, v, value.OfDict(d.dict))
	}
	cells := make([]value.Value, 0, d.dict.Len())
	for _, e := range d.dict.Entries() {
		cells = append(cells, d.cell(e))
	}
	return value.Contains(m, v, value.List(cells))
}

// EqualTo compares keys and items as sets; values are equal to themselves only.
func (d *dictView) EqualTo(m *limit.Meter, other value.Object) (bool, error) {
	o, ok := other.(*dictView)
	if !ok || o.name != d.name || d.name == "values" {
		return ok && o == d, nil
	}
	if d.name == "items" {
		return value.Equal(m, value.OfDict(d.dict), value.OfDict(o.dict))
	}
	if d.dict.Len() != o.dict.Len() {
		return false, nil
	}
	for _, e := range d.dict.Entries() {
		if ok, err := o.Contains(m, e.Key); !ok || err != nil {
			return false, err
		}
	}
	return true, m.Work(d.dict.Len())
}

// Iter walks the entries in order.
func (d *dictView) Iter() value.Iterator { return &viewIter{view: d, step: 1} }

// Reversed walks the entries from the end.
func (d *dictView) Reversed() value.Iterator {
	return &viewIter{view: d, at: d.dict.Len() - 1, step: -1}
}

// AppendRepr prints "dict_keys([...])".
func (d *dictView) AppendRepr(p *value.Printer) error {
	cells := make([]value.Value, 0, d.dict.Len())
	for _, e := range d.dict.Entries() {
		cells = append(cells, d.cell(e))
	}
	if err := p.Write("dict_" + d.name + "("); err != nil {
		return err
	}
	if err := p.Repr(value.List(cells)); err != nil {
		return err
	}
	return p.Write(")")
}
