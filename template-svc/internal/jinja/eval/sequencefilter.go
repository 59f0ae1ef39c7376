package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Filters that pick from sequences or pass values on. Lists being
// immutable, many of them return what they were given.

// sequenceFilterOf gives the filters over sequences and values as they are.
func sequenceFilterOf(name string) nativeFunc {
	switch name {
	// default(value, default_value='', boolean=False)
	case "default", "d":
		return bound(defaultSignature, defaultFilter)
	// first(seq)
	case "first":
		return bound(firstSignature, firstFilter)
	// last(seq)
	case "last":
		return bound(lastSignature, lastFilter)
	// random(seq)
	case "random":
		return bound(randomSignature, randomFilter)
	// list(value)
	case "list":
		return bound(listSignature, listFilter)
	// reverse(value)
	case "reverse":
		return bound(reverseSignature, reverseFilter)
	// min(value, case_sensitive=False, attribute=None)
	case "min", "max":
		return extremeFilter(name)
	// sort(value, reverse=False, case_sensitive=False, attribute=None)
	case "sort":
		return bound(sortSignature, sortFilter)
	// dictsort(value, case_sensitive=False, by='key', reverse=False)
	case "dictsort":
		return bound(dictSortSignature, dictSortFilter)
	// groupby(value, attribute, default=None, case_sensitive=False)
	case "groupby":
		return bound(groupBySignature, groupByFilter)
	// attr(obj, name)
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
	switch {
	case ok || err != nil:
	case b[0].Kind() == value.KindDict:
		err = pyerr.Newf(pyerr.Key, "%d", i.AsInt())
	default:
		err = typeError("'%s' object is not subscriptable", b[0].TypeName())
	}
	return v, err
}

// listFilter is list. Lists are immutable here, so a list is its own copy.
func listFilter(r *run, b []value.Value) (value.Value, error) {
	cells, err := r.collect(b[0])
	return value.List(cells), err
}

// attrFilter is x|attr(name): an attribute, never an item.
func attrFilter(_ *run, b []value.Value) (value.Value, error) {
	if !b[1].IsStr() {
		if k := b[1].Kind(); k == value.KindList || k == value.KindDict {
			return value.Value{}, typeError("unhashable type: '%s'", b[1].TypeName())
		}
		return value.Value{}, typeError("attribute name must be string, not '%s'", b[1].TypeName())
	}
	v, ok, err := attribute(b[0], b[1].AsStr())
	if ok || err != nil {
		return v, err
	}
	return noAttr(b[0], b[1].AsStr()), nil
}
