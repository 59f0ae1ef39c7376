package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// The lazy filters give generators: without length, used up by the first
// loop, their faults unseen until then. Each step of one counts as a nested
// call.

// lazyFilterOf gives the filters whose result is a generator: nothing is
// computed, and no fault seen, before something iterates over it.
func lazyFilterOf(name string) nativeFunc {
	switch name {
	// map(value, filter, ...) or map(value, attribute=, default=)
	case "map":
		return mapFilter
	// select(value, test=truth, ...)
	case "select", "reject":
		return selectFilter(name, false)
	// selectattr(value, attribute, test=truth, ...)
	case "selectattr", "rejectattr":
		return selectFilter(name, true)
	// items(value)
	case "items":
		return bound(itemsSignature, itemsFilter)
	// unique(value, case_sensitive=False, attribute=None)
	case "unique":
		return bound(uniqueSignature, uniqueFilter)
	// batch(value, linecount, fill_with=None)
	case "batch":
		return bound(batchSignature, batchFilter)
	// slice(value, slices, fill_with=None)
	case "slice":
		return bound(sliceSignature, sliceFilter)
	}
	return nil
}

var (
	itemsSignature  = newSignature("do_items", 1, "value")
	uniqueSignature = &signature{
		name: "sync_do_unique", required: 1, hidden: 1,
		params: []string{"value", "case_sensitive", "attribute"},
	}
	batchSignature = newSignature("do_batch", 2, "value", "linecount", "fill_with")
	sliceSignature = newSignature("sync_do_slice", 2, "value", "slices", "fill_with")
)

// generator makes a generator whose steps count as nested calls, so that
// generators over generators cannot exhaust the stack.
func (r *run) generator(next func() (value.Value, bool, error)) value.Value {
	_ = r.m.Bytes(2 * objectBytes) // its next charge fails if this one does
	return value.NewGenerator("generator", func() (value.Value, bool, error) {
		if err := r.m.Enter(); err != nil {
			return value.Value{}, false, err
		}
		defer r.m.Leave()
		return next()
	})
}

// lazily makes a generator of the members of v, each passed through step;
// keep false drops a member. With empty set, a false v has no members, whatever
// its type. start runs before the first member.
func (r *run) lazily(v value.Value, empty bool, start func() error,
	step func(v value.Value) (out value.Value, keep bool, err error),
) value.Value {
	var it value.Iterator
	return r.generator(func() (value.Value, bool, error) {
		if it == nil {
			if empty && !v.Truth() {
				return value.Value{}, false, nil
			}
			if err := start(); err != nil {
				return value.Value{}, false, err
			}
			var err error
			if it, err = v.Iter(); err != nil {
				return value.Value{}, false, err
			}
		}
		for {
			m, ok, err := it.Next()
			if !ok || err != nil {
				return value.Value{}, false, err
			}
			if err := r.m.Step(); err != nil {
				return value.Value{}, false, err
			}
			out, keep, err := step(m)
			if keep || err != nil {
				return out, err == nil, err
			}
		}
	})
}

// itemsFilter is items: the pairs of a mapping, none of undefined; for
// anything else the fault comes with the first step.
func itemsFilter(r *run, b []value.Value) (value.Value, error) {
	v := b[0]
	var it value.Iterator
	return r.generator(func() (value.Value, bool, error) {
		if v.IsUndefined() {
			return v, false, nil
		}
		if v.Kind() != value.KindDict {
			return v, false, typeError("Can only get item pairs from a mapping.")
		}
		if it == nil {
			it = (&dictView{name: "items", dict: v.AsDict()}).Iter()
		}
		return it.Next()
	}), nil
}

// uniqueFilter is unique(value, case_sensitive=False, attribute=None): the
// first member of each key, in order.
func uniqueFilter(r *run, b []value.Value) (value.Value, error) {
	path := newAttrPath(b[2])
	path.fold = !b[1].Truth()
	seen := value.NewDict(0)
	return r.lazily(b[0], false, func() error { return nil }, func(v value.Value) (value.Value, bool, error) {
		key, err := path.get(r, v)
		if err != nil {
			return v, false, err
		}
		if err := r.key(key); err != nil {
			return v, false, err
		}
		if _, ok, err := seen.Get(key); ok || err != nil {
			return v, false, err
		}
		return v, true, seen.Set(key, value.None)
	}), nil
}
