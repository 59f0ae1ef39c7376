package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// pprint sorts the keys of dicts, of mixed types by the names of the types.

// sortedKeys gives v with the keys of all dicts in order.
func sortedKeys(r *run, v value.Value, depth int) (value.Value, error) {
	if depth > prettyDepth {
		return v, &limit.Error{Kind: limit.Depth, Max: prettyDepth}
	}
	switch v.Kind() {
	case value.KindList, value.KindTuple:
		if err := r.m.Product(len(v.Cells()), cellBytes); err != nil {
			return v, err
		}
		out := make([]value.Value, len(v.Cells()))
		for i, c := range v.Cells() {
			var err error
			if out[i], err = sortedKeys(r, c, depth+1); err != nil {
				return v, err
			}
		}
		if v.Kind() == value.KindTuple {
			return value.Tuple(out), nil
		}
		return value.List(out), nil
	case value.KindDict:
		return sortedDict(r, v.AsDict(), depth)
	}
	return v, nil
}

// sortedDict gives a dict with its keys in order.
func sortedDict(r *run, d *value.Dict, depth int) (value.Value, error) {
	entries := d.Entries()
	keys := make([]value.Value, len(entries))
	for i, e := range entries {
		// Keys that do not compare are put in order by the names of their types.
		keys[i] = value.Tuple([]value.Value{value.Str(e.Key.TypeName()), e.Key})
		if e.Key.IsNumber() {
			keys[i] = value.Tuple([]value.Value{value.Str("int"), e.Key})
		}
	}
	order, err := value.SortOrder(&r.m, keys, false)
	if err != nil {
		return value.Value{}, err
	}
	out := value.NewDict(len(entries))
	for _, i := range order {
		v, err := sortedKeys(r, entries[i].Val, depth+1)
		if err != nil {
			return v, err
		}
		if err := out.Set(entries[i].Key, v); err != nil {
			return v, err
		}
	}
	return value.OfDict(out), nil
}
