package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// lazyFilterOf gives the filters whose result is a generator: nothing is
// computed, and no fault seen, before something iterates over it.
func lazyFilterOf(name string) nativeFunc {
	switch name {
	case "map":
		return mapFilter
	case "select", "reject":
		return selectFilter(name, false)
	case "selectattr", "rejectattr":
		return selectFilter(name, true)
	case "items":
		return bound(itemsSignature, itemsFilter)
	case "unique":
		return bound(uniqueSignature, uniqueFilter)
	case "batch":
		return bound(batchSignature, batchFilter)
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

// pathParts splits a dotted attribute; parts of digits are indices.
func pathParts(attr string) []value.Value {
	var parts []value.Value
	for _, p := range strings.Split(attr, ".") {
		if value.AllRunes(p, value.IsDigit) {
			if i, ok, err := value.ParseInt(p, 10); ok && err == nil {
				parts = append(parts, i)
				continue
			}
		}
		parts = append(parts, value.Str(p))
	}
	return parts
}

var contextSignature = &signature{name: "sync_do_map", required: 1, hidden: 1, params: []string{"value"}}

// mapFilter is map(filter, ...) or map(attribute=..., default=...). A false
// value of any type has no members.
func mapFilter(r *run, a *args) (value.Value, error) {
	if len(a.pos) == 0 {
		_, err := contextSignature.bind(a)
		return value.Value{}, err
	}
	a = a.keep()
	var step func(v value.Value) (value.Value, error)
	start := func() error {
		var err error
		step, err = mapStep(r, a)
		return err
	}
	return r.lazily(a.pos[0], true, start, func(v value.Value) (value.Value, bool, error) {
		out, err := step(v)
		return out, true, err
	}), nil
}

// mapStep is the function that map applies: an attribute or a filter.
func mapStep(r *run, a *args) (func(v value.Value) (value.Value, error), error) {
	kw := a.kw
	attr, rest, ok := takeKeyword(kw, "attribute")
	if len(a.pos) == 1 && ok {
		path := newAttrPath(attr)
		def, rest, ok := takeKeyword(rest, "default")
		if ok && !def.IsNone() {
			path.def, path.hasDef = def, true
		}
		if len(rest) > 0 {
			return nil, pyerr.Newf(pyerr.FilterArgument, "Unexpected keyword argument %s", value.ReprString(rest[0].name))
		}
		return func(v value.Value) (value.Value, error) { return path.get(r, v) }, nil
	}
	if len(a.pos) == 1 {
		return nil, pyerr.New(pyerr.FilterArgument, "map requires a filter argument")
	}
	fn := nativeFunc(nil)
	if a.pos[1].IsStr() {
		fn = filterOf(a.pos[1].AsStr())
	}
	name := a.pos[1]
	call := &args{pos: append([]value.Value(nil), a.pos[1:]...), kw: kw}
	return func(v value.Value) (value.Value, error) {
		if fn == nil {
			return v, errNoCallable(r, "filter", name)
		}
		return fn(r, call.with(v))
	}, nil
}

// with gives the arguments with v in the first place.
func (a *args) with(v value.Value) *args {
	pos := append([]value.Value{v}, a.pos[1:]...)
	return &args{pos: pos, kw: a.kw}
}

// errNoCallable is the error of a filter or test named at run time.
func errNoCallable(r *run, what string, name value.Value) error {
	shown, err := value.ReprOf(&r.m, name)
	if err != nil {
		return err
	}
	msg := "No " + what + " named " + shown + "."
	if name.IsUndefined() {
		msg += " (" + name.Undef().Message() + "; did you forget to quote the callable name?)"
	} else if _, _, err := value.NewDict(0).Get(name); err != nil {
		return err
	}
	return pyerr.New(pyerr.TemplateRuntime, msg)
}

// selectFilter is select, reject and their forms for attributes.
func selectFilter(name string, byAttr bool) nativeFunc {
	sig := &signature{name: "sync_do_" + name, required: 1, hidden: 1, params: []string{"value"}}
	want := strings.HasPrefix(name, "select")
	return func(r *run, a *args) (value.Value, error) {
		if len(a.pos) == 0 {
			_, err := sig.bind(a)
			return value.Value{}, err
		}
		a = a.keep()
		var path attrPath
		var pass func(v value.Value) (bool, error)
		start := func() error {
			rest := a.pos[1:]
			if byAttr {
				if len(rest) == 0 {
					return pyerr.New(pyerr.FilterArgument, "Missing parameter for attribute name")
				}
				path = newAttrPath(rest[0])
				rest = rest[1:]
			}
			pass = selectTest(r, rest, a.kw)
			return nil
		}
		return r.lazily(a.pos[0], true, start, func(v value.Value) (value.Value, bool, error) {
			x, err := path.get(r, v)
			if err != nil {
				return v, false, err
			}
			ok, err := pass(x)
			return v, ok == want, err
		}), nil
	}
}

// selectTest is the test that select applies: truth if none is named.
func selectTest(r *run, rest []value.Value, kw []keyword) func(v value.Value) (bool, error) {
	if len(rest) == 0 {
		return func(v value.Value) (bool, error) { return v.Truth(), nil }
	}
	var fn testFunc
	if rest[0].IsStr() {
		fn = testOf(rest[0].AsStr())
	}
	call := args{pos: append([]value.Value(nil), rest...), kw: kw}
	return func(v value.Value) (bool, error) {
		if fn == nil {
			return false, errNoCallable(r, "test", rest[0])
		}
		call.pos[0] = v
		return fn(r, &call)
	}
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

// batchFilter is batch(value, linecount, fill_with=None): lists of
// linecount members, the last one filled up.
func batchFilter(r *run, b []value.Value) (value.Value, error) {
	var it value.Iterator
	var held []value.Value
	done := false
	size, sizeErr := asInt(b[1], 0)
	isNumber := sizeErr == nil
	return r.generator(func() (value.Value, bool, error) {
		if it == nil {
			var err error
			if it, err = b[0].Iter(); err != nil {
				return value.Value{}, false, err
			}
		}
		for !done {
			v, ok, err := it.Next()
			if err != nil {
				return v, false, err
			}
			if !ok {
				done = true
				break
			}
			if err := r.cell(); err != nil {
				return v, false, err
			}
			if isNumber && int64(len(held)) == size {
				out := held
				held = []value.Value{v}
				return value.List(out), true, nil
			}
			held = append(held, v)
		}
		if len(held) == 0 {
			return value.Value{}, false, nil
		}
		out := held
		held = nil
		if given(b[2]) && int64(len(out)) < size {
			if err := r.m.Product(int(size)-len(out), cellBytes); err != nil {
				return value.Value{}, false, err
			}
			for int64(len(out)) < size {
				out = append(out, b[2])
			}
		}
		return value.List(out), true, nil
	}), nil
}

// sliceFilter is slice(value, slices, fill_with=None): as many lists as
// asked for, of nearly equal length.
func sliceFilter(r *run, b []value.Value) (value.Value, error) {
	var cells []value.Value
	started := false
	var n, number, offset int
	return r.generator(func() (value.Value, bool, error) {
		if !started {
			var err error
			if cells, err = r.collect(b[0]); err != nil {
				return value.Value{}, false, err
			}
			count, err := asInt(b[1], 0)
			if err != nil {
				return value.Value{}, false, typeError("unsupported operand type(s) for //: 'int' and '%s'", b[1].TypeName())
			}
			if count == 0 {
				return value.Value{}, false, pyerr.New(pyerr.ZeroDivision, "integer division or modulo by zero")
			}
			n, started = int(max(min(count, 1<<40), 0)), true
		}
		if number >= n {
			return value.Value{}, false, nil
		}
		if err := r.m.Step(); err != nil {
			return value.Value{}, false, err
		}
		per, extra := len(cells)/n, len(cells)%n
		start := offset + number*per
		if number < extra {
			offset++
		}
		part := cells[start : offset+(number+1)*per]
		if err := r.m.Product(len(part)+1, cellBytes); err != nil {
			return value.Value{}, false, err
		}
		out := append(make([]value.Value, 0, len(part)+1), part...)
		if given(b[2]) && number >= extra {
			out = append(out, b[2])
		}
		number++
		return value.List(out), true, nil
	}), nil
}
