package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// sequenceFilterOf gives the filters over sequences and values as they are.
func sequenceFilterOf(name string) nativeFunc {
	switch name {
	case "default", "d":
		return bound(defaultSignature, defaultFilter)
	case "first":
		return bound(firstSignature, firstFilter)
	case "last":
		return bound(lastSignature, lastFilter)
	case "random":
		return bound(randomSignature, randomFilter)
	case "list":
		return bound(listSignature, listFilter)
	case "reverse":
		return bound(reverseSignature, reverseFilter)
	case "min", "max":
		return extremeFilter(name)
	case "sort":
		return bound(sortSignature, sortFilter)
	case "dictsort":
		return bound(dictSortSignature, dictSortFilter)
	case "groupby":
		return bound(groupBySignature, groupByFilter)
	case "attr":
		return bound(attrSignature, attrFilter)
	}
	return nil
}

var (
	defaultSignature = newSignature("do_default", 1, "value", "default_value", "boolean")
	firstSignature   = &signature{name: "sync_do_first", required: 1, hidden: 1, params: []string{"seq"}}
	lastSignature    = &signature{name: "do_last", required: 1, hidden: 1, params: []string{"seq"}}
	randomSignature  = &signature{name: "do_random", required: 1, hidden: 1, params: []string{"seq"}}
	listSignature    = newSignature("sync_do_list", 1, "value")
	reverseSignature = newSignature("do_reverse", 1, "value")
	sortSignature    = &signature{
		name: "do_sort", required: 1, hidden: 1,
		params: []string{"value", "reverse", "case_sensitive", "attribute"},
	}
	dictSortSignature = newSignature("do_dictsort", 1, "value", "case_sensitive", "by", "reverse")
	groupBySignature  = &signature{
		name: "sync_do_groupby", required: 2, hidden: 1,
		params: []string{"value", "attribute", "default", "case_sensitive"},
	}
	attrSignature = &signature{name: "do_attr", required: 2, hidden: 1, params: []string{"obj", "name"}}
)

// hinted is an undefined value whose message is a hint.
func hinted(hint string) value.Value { return value.Undefined(&value.Undef{Hint: hint}) }

// defaultFilter is default(value, default_value=”, boolean=False):
// undefined values are replaced, false ones only with boolean.
func defaultFilter(_ *run, b []value.Value) (value.Value, error) {
	if !b[0].IsUndefined() && (!b[2].Truth() || b[0].Truth()) {
		return b[0], nil
	}
	if isMissing(b[1]) {
		return value.Str(""), nil
	}
	return b[1], nil
}

// firstFilter is first: the first member, or undefined with a hint.
func firstFilter(_ *run, b []value.Value) (value.Value, error) {
	it, err := b[0].Iter()
	if err != nil {
		return value.Value{}, err
	}
	v, ok, err := it.Next()
	if !ok && err == nil {
		return hinted("No first item, sequence was empty."), nil
	}
	return v, err
}

// reversed is Python's reversed(v).
func reversed(r *run, v value.Value) (value.Iterator, error) {
	switch v.Kind() {
	case value.KindUndefined:
		return value.FromCells(nil), nil
	case value.KindList, value.KindTuple:
		cells := v.Cells()
		i := len(cells)
		return &stepper{func() (value.Value, bool, error) {
			if i == 0 {
				return value.Value{}, false, nil
			}
			i--
			return cells[i], true, nil
		}}, nil
	case value.KindDict:
		return (&dictView{name: "keys", dict: v.AsDict()}).Reversed(), nil
	case value.KindStr:
		list, err := r.collect(v)
		if err != nil {
			return nil, err
		}
		return reversed(r, value.List(list))
	case value.KindObject:
		if o, ok := v.AsObject().(value.Reversible); ok {
			return o.Reversed(), nil
		}
	}
	return nil, typeError("'%s' object is not reversible", v.TypeName())
}

// stepper is an iterator made of a function.
type stepper struct {
	next func() (value.Value, bool, error)
}

// Next calls the function.
func (s *stepper) Next() (value.Value, bool, error) { return s.next() }

// lastFilter is last: TypeError for what has no end to start from,
// generators among them.
func lastFilter(r *run, b []value.Value) (value.Value, error) {
	it, err := reversed(r, b[0])
	if err != nil {
		return value.Value{}, err
	}
	v, ok, err := it.Next()
	if !ok && err == nil {
		return hinted("No last item, sequence was empty."), nil
	}
	return v, err
}

// randomFilter is random; a render always draws the same.
func randomFilter(r *run, b []value.Value) (value.Value, error) {
	n, err := b[0].Len()
	if err != nil {
		return value.Value{}, err
	}
	if n == 0 {
		return hinted("No random item, sequence was empty."), nil
	}
	i := value.Int(int64(r.random(uint64(n))))
	v, ok, err := subscript(b[0], i)
	if !ok && err == nil {
		err = typeError("'%s' object is not subscriptable", b[0].TypeName())
	}
	return v, err
}

// listFilter is list. Lists are immutable here, so a list is its own copy.
func listFilter(r *run, b []value.Value) (value.Value, error) {
	cells, err := r.collect(b[0])
	return value.List(cells), err
}

// reverseFilter is reverse: a text from back to front, or a lazy sequence.
func reverseFilter(r *run, b []value.Value) (value.Value, error) {
	v := b[0]
	if v.IsStr() {
		return sliceOf(r, v, [3]value.Value{value.None, value.None, value.Int(-1)})
	}
	if it, err := reversed(r, v); err == nil {
		name := map[string]string{"list": "list_reverseiterator", "dict": "dict_reversekeyiterator", "range": "range_iterator"}
		if n := name[v.TypeName()]; n != "" {
			return value.NewGenerator(n, it.Next), nil
		}
		return value.NewGenerator("reversed", it.Next), nil
	}
	if !v.CanIter() {
		return v, pyerr.New(pyerr.FilterArgument, "argument must be iterable")
	}
	cells, err := r.collect(v)
	if err != nil {
		return v, err
	}
	return sliceOf(r, value.List(cells), [3]value.Value{value.None, value.None, value.Int(-1)})
}

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
	return sorted(r, cells, keys, b[1].Truth())
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
	return sorted(r, cells, keys, b[3].Truth())
}

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

// attrFilter is x|attr(name): an attribute, never an item.
func attrFilter(_ *run, b []value.Value) (value.Value, error) {
	if !b[1].IsStr() {
		return value.Value{}, typeError("attribute name must be string, not '%s'", b[1].TypeName())
	}
	v, ok, err := attribute(b[0], b[1].AsStr())
	if ok || err != nil {
		return v, err
	}
	return noAttr(b[0], b[1].AsStr()), nil
}
