package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Methods of Python's built-in types check their arguments in C, with
// messages of their own kinds. These helpers write the common ones.

// typeError makes a TypeError.
func typeError(format string, a ...any) error { return pyerr.Newf(pyerr.Type, format, a...) }

// valueError makes a ValueError.
func valueError(message string) error { return pyerr.New(pyerr.Value, message) }

// errNoAttribute is Python's AttributeError; a namespace's own names the
// attribute alone.
func errNoAttribute(v value.Value, name string) error {
	if _, ok := v.AsObject().(*namespace); ok {
		return pyerr.New(pyerr.Attribute, name)
	}
	return pyerr.Newf(pyerr.Attribute, "'%s' object has no attribute '%s'", v.TypeName(), name)
}

// argumentType is how CPython's argument clinic names the type of an argument it refuses.
func argumentType(v value.Value) string {
	if v.IsNone() {
		return "None"
	}
	return v.TypeName()
}

// plural is "argument" or "arguments".
func plural(n int) string {
	if n == 1 {
		return "argument"
	}
	return "arguments"
}

// arity checks a method with positional parameters only; owner is its type.
func (a *args) arity(owner, name string, low, high int) error {
	n := len(a.pos)
	switch {
	case len(a.kw) > 0:
		return typeError("%s.%s() takes no keyword arguments", owner, name)
	case n >= low && n <= high:
		return nil
	case high == 0:
		return typeError("%s.%s() takes no arguments (%d given)", owner, name, n)
	case low == 1 && high == 1:
		return typeError("%s.%s() takes exactly one argument (%d given)", owner, name, n)
	case low == high:
		return typeError("%s expected %d %s, got %d", name, low, plural(low), n)
	case n < low:
		return typeError("%s expected at least %d %s, got %d", name, low, plural(low), n)
	}
	return typeError("%s expected at most %d %s, got %d", name, high, plural(high), n)
}

// named merges keyword arguments of a method into the positional ones; the
// zero Value stands for "not given".
func (a *args) named(name string, params ...string) ([]value.Value, error) {
	if len(a.pos)+len(a.kw) > len(params) {
		return nil, typeError("%s() takes at most %d %s (%d given)", name, len(params), plural(len(params)),
			len(a.pos)+len(a.kw))
	}
	out := make([]value.Value, len(params))
	copy(out, a.pos)
next:
	for _, k := range a.kw {
		for i, p := range params {
			if p == k.name {
				if i < len(a.pos) {
					return nil, typeError("argument for %s() given by name ('%s') and position (%d)", name, p, i+1)
				}
				out[i] = k.value
				continue next
			}
		}
		return nil, typeError("'%s' is an invalid keyword argument for %s()", k.name, name)
	}
	return out, nil
}

// at gives argument i, the zero Value if there are fewer.
func (a *args) at(i int) value.Value {
	if i < len(a.pos) {
		return a.pos[i]
	}
	return value.Value{}
}

// asInt is an argument that must be an int; none is the value of one that was
// not given.
func asInt(v value.Value, none int64) (int64, error) {
	switch v.Kind() {
	case value.KindBool, value.KindInt:
		return v.AsInt(), nil
	case value.KindBig:
		return 0, pyerr.New(pyerr.Overflow, "Python int too large to convert to C ssize_t")
	case value.KindUndefined:
		if isMissing(v) {
			return none, nil
		}
	}
	return 0, typeError("'%s' object cannot be interpreted as an integer", v.TypeName())
}

// span cuts s to the code points between two optional arguments; ok is false
// if the start lies beyond the end. first is the index of what is left.
func span(r *run, s string, start, end value.Value) (part string, first int, ok bool, err error) {
	if isMissing(start) && isMissing(end) {
		return s, 0, true, nil
	}
	if err := r.m.Scan(len(s)); err != nil {
		return "", 0, false, err
	}
	n := value.RuneCount(s)
	i, err := sliceIndex(start, 0, n)
	if k := start.Kind(); (k == value.KindInt || k == value.KindBool) && start.AsInt() > int64(n) {
		return "", n, false, nil
	}
	if err != nil {
		return "", 0, false, err
	}
	j, err := sliceIndex(end, n, n)
	if err != nil {
		return "", 0, false, err
	}
	if i > n || i > j {
		return "", i, false, nil
	}
	from := value.Offset(s, i)
	return s[from : from+value.Offset(s[from:], j-i)], i, true, nil
}

// sliceIndex is an optional bound of a search in n members.
func sliceIndex(v value.Value, none, n int) (int, error) {
	switch v.Kind() {
	case value.KindNone:
		return none, nil
	case value.KindUndefined:
		if isMissing(v) {
			return none, nil
		}
	case value.KindBig:
		return n * (1 + v.AsBig().Sign()) / 2 * 2, nil
	case value.KindBool, value.KindInt:
		i := v.AsInt()
		if i < 0 {
			i = max(i+int64(n), 0)
		}
		if none == n {
			i = min(i, int64(n))
		}
		return int(min(i, 1<<40)), nil
	}
	return 0, typeError("slice indices must be integers or None or have an __index__ method")
}

// texts makes a list of strings, Markup if the source was.
func (r *run) texts(parts []string, markup bool) (value.Value, error) {
	if err := r.m.Product(len(parts), cellBytes); err != nil {
		return value.Value{}, err
	}
	if err := r.m.Work(len(parts)); err != nil {
		return value.Value{}, err
	}
	cells := make([]value.Value, len(parts))
	for i, p := range parts {
		cells[i] = value.Str(p).WithMarkup(markup)
	}
	return value.List(cells), nil
}

// made charges a text that was made and gives it as a value like self.
func (r *run) made(s string, self value.Value) (value.Value, error) {
	if err := r.m.Bytes(len(s)); err != nil {
		return value.Value{}, err
	}
	return value.Str(s).WithMarkup(self.IsMarkup()), nil
}
