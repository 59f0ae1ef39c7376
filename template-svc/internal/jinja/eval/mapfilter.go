package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// map applies a filter, or follows an attribute path, to each member.
// Filters named at run time are looked up at run time.

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
