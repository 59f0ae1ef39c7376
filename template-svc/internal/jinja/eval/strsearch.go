package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Searches take optional bounds in code points, clipped like those of
// slices.

// affixes checks the first argument of startswith and endswith.
func affixes(name string, v value.Value) ([]value.Value, error) {
	if v.IsStr() {
		return []value.Value{v}, nil
	}
	if v.Kind() != value.KindTuple {
		return nil, typeError("%s first arg must be str or a tuple of str, not %s", name, v.TypeName())
	}
	for _, c := range v.Cells() {
		if !c.IsStr() {
			return nil, typeError("tuple for %s must only contain str, not %s", name, c.TypeName())
		}
	}
	return v.Cells(), nil
}

// affixMethod is startswith or endswith(affix or tuple, start, end).
func affixMethod(name string) methodFunc {
	has := strings.HasPrefix
	if name == "endswith" {
		has = strings.HasSuffix
	}
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if len(a.pos) == 1 && len(a.kw) == 0 && a.pos[0].IsStr() {
			return value.Bool(has(self.AsStr(), a.pos[0].AsStr())), nil
		}
		if len(a.kw) > 0 || len(a.pos) < 1 || len(a.pos) > 3 {
			return self, affixArity(name, a)
		}
		part, _, ok, err := span(r, self.AsStr(), a.at(1), a.at(2))
		if err != nil {
			return self, err
		}
		list, err := affixes(name, a.pos[0])
		if !ok || err != nil {
			return value.False, err
		}
		for _, x := range list {
			if err := r.m.Step(); err != nil {
				return self, err
			}
			if has(part, x.AsStr()) {
				return value.True, nil
			}
		}
		return value.False, nil
	}
}

// affixArity is the error of the wrong number of arguments.
func affixArity(name string, a *args) error {
	switch {
	case len(a.kw) > 0:
		return typeError("%s() takes no keyword arguments", name)
	case len(a.pos) < 1:
		return typeError("%s() takes at least 1 argument (%d given)", name, len(a.pos))
	}
	return typeError("%s() takes at most 3 arguments (%d given)", name, len(a.pos))
}

// removeMethod is removeprefix or removesuffix(affix).
func removeMethod(name string) methodFunc {
	return func(_ *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity("str", name, 1, 1); err != nil {
			return self, err
		}
		if !a.pos[0].IsStr() {
			return self, typeError("%s() argument must be str, not %s", name, argumentType(a.pos[0]))
		}
		s := self.AsStr()
		if name == "removeprefix" {
			s = strings.TrimPrefix(s, a.pos[0].AsStr())
		} else {
			s = strings.TrimSuffix(s, a.pos[0].AsStr())
		}
		return value.Str(s).WithMarkup(self.IsMarkup()), nil
	}
}

// findMethod is find, rfind, index or rindex(sub, start, end), in code
// points.
func findMethod(name string) methodFunc {
	find := strings.Index
	if name[0] == 'r' {
		find = strings.LastIndex
	}
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if len(a.kw) > 0 || len(a.pos) < 1 || len(a.pos) > 3 {
			return self, affixArity(name, a)
		}
		part, first, ok, err := span(r, self.AsStr(), a.at(1), a.at(2))
		if err == nil && !a.pos[0].IsStr() {
			err = typeError("must be str, not %s", a.pos[0].TypeName())
		}
		if err != nil {
			return self, err
		}
		i := -1
		if ok {
			i = find(part, a.pos[0].AsStr())
		}
		if i < 0 {
			if strings.HasSuffix(name, "index") {
				return self, pyerr.New(pyerr.Value, "substring not found")
			}
			return value.Int(-1), nil
		}
		return value.Int(int64(first + value.RuneCount(part[:i]))), r.m.Scan(len(part))
	}
}

// strCount is count(sub, start, end), without overlaps.
func strCount(r *run, self value.Value, a *args) (value.Value, error) {
	if len(a.kw) > 0 || len(a.pos) < 1 || len(a.pos) > 3 {
		return self, affixArity("count", a)
	}
	part, _, ok, err := span(r, self.AsStr(), a.at(1), a.at(2))
	if err == nil && !a.pos[0].IsStr() {
		err = typeError("must be str, not %s", a.pos[0].TypeName())
	}
	if !ok || err != nil {
		return value.Int(0), err
	}
	return value.Int(int64(strings.Count(part, a.pos[0].AsStr()))), r.m.Scan(len(part))
}
