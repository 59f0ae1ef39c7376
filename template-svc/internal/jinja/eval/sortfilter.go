package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Sorting ignores case unless told otherwise and is stable. Keys that do
// not compare end it with Python's TypeError.

// extremeFilter is min or max(value, case_sensitive=False, attribute=None):
// the first of equal members wins.
func extremeFilter(name string) nativeFunc {
	sig := &signature{
		name: "do_" + name, required: 1, hidden: 1,
		params: []string{"value", "case_sensitive", "attribute"},
	}
	order := value.Less
	if name == "max" {
		order = value.Greater
	}
	return bound(sig, func(r *run, b []value.Value) (value.Value, error) {
		path := newAttrPath(b[2])
		path.fold = !b[1].Truth()
		var best, bestKey value.Value
		found := false
		err := iterate(r, b[0], func(v value.Value) error {
			key, err := path.get(r, v)
			if err != nil {
				return err
			}
			better := !found
			if found {
				if better, err = value.Compare(&r.m, order, key, bestKey); err != nil {
					return err
				}
			}
			if better {
				best, bestKey, found = v, key, true
			}
			return nil
		})
		if err == nil && !found {
			return hinted("No aggregated item, sequence was empty."), nil
		}
		return best, err
	})
}

// sorted gives cells in the order of their keys.
func sorted(r *run, cells, keys []value.Value, reverse bool) (value.Value, error) {
	order, err := value.SortOrder(&r.m, keys, reverse)
	if err != nil {
		return value.Value{}, err
	}
	if err := r.m.Product(len(cells), cellBytes); err != nil {
		return value.Value{}, err
	}
	out := make([]value.Value, len(cells))
	for i, at := range order {
		out[i] = cells[at]
	}
	return value.List(out), nil
}

// sortFilter is sort(value, reverse=False, case_sensitive=False,
// attribute=None), stable, with several attributes parted by commas.
func sortFilter(r *run, b []value.Value) (value.Value, error) {
	cells, err := r.collect(b[0])
	if err != nil {
		return value.Value{}, err
	}
	reverse, err := asInt(b[1], 0)
	if err != nil {
		return value.Value{}, err
	}
	paths := sortPaths(b[3], !b[2].Truth())
	keys := make([]value.Value, len(cells))
	for i, c := range cells {
		if err := r.m.Product(len(paths)+1, cellBytes); err != nil {
			return value.Value{}, err
		}
		parts := make([]value.Value, len(paths))
		for j := range paths {
			if parts[j], err = paths[j].get(r, c); err != nil {
				return value.Value{}, err
			}
		}
		keys[i] = value.List(parts)
	}
	return sorted(r, cells, keys, reverse != 0)
}

// sortPaths reads the attribute of sort: several, if commas part them.
func sortPaths(attr value.Value, fold bool) []attrPath {
	if !attr.IsStr() {
		p := newAttrPath(attr)
		p.fold = fold
		return []attrPath{p}
	}
	var paths []attrPath
	for _, part := range splitComma(attr.AsStr()) {
		paths = append(paths, attrPath{parts: pathParts(part), fold: fold})
	}
	return paths
}

// splitComma splits at commas, empty parts included.
func splitComma(s string) []string {
	var parts []string
	start := 0
	for i := range len(s) {
		if s[i] == ',' {
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

// dictSortFilter is dictsort(value, case_sensitive=False, by='key',
// reverse=False): a list of pairs.
func dictSortFilter(r *run, b []value.Value) (value.Value, error) {
	by := "key"
	if !isMissing(b[2]) {
		by = b[2].Text()
	}
	if by != "key" && by != "value" {
		return value.Value{}, pyerr.New(pyerr.FilterArgument, `You can only sort by either "key" or "value"`)
	}
	if b[0].IsUndefined() {
		return value.Value{}, value.RaiseUndefined(b[0])
	}
	if b[0].Kind() != value.KindDict {
		return value.Value{}, errNoAttribute(b[0], "items")
	}
	reverse, err := asInt(b[3], 0)
	if err != nil {
		return value.Value{}, err
	}
	entries := b[0].AsDict().Entries()
	if err := r.m.Product(len(entries), 3*cellBytes); err != nil {
		return value.Value{}, err
	}
	cells := make([]value.Value, len(entries))
	keys := make([]value.Value, len(entries))
	for i, e := range entries {
		cells[i] = value.Tuple([]value.Value{e.Key, e.Val})
		keys[i] = e.Key
		if by == "value" {
			keys[i] = e.Val
		}
		if !b[1].Truth() {
			keys[i] = lowered(keys[i])
		}
	}
	return sorted(r, cells, keys, reverse != 0)
}
