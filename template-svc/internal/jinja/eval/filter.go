package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// A filter is a native function whose first argument is the value. The
// usual cases of the commonest ones are tried before arguments are
// gathered.

// filter compiles x|name(...).
func (c *compiler) filter(n *syntax.Filter, s *scope) exprFunc {
	c.checkFilter(n, s)
	expr := c.expr(n.Node, s)
	apply := c.applyFilter(n, s)
	return func(f *frame) (value.Value, error) {
		v, err := expr(f)
		if err != nil {
			return v, err
		}
		return apply(f, v)
	}
}

// checkFilter refuses an unknown filter, unless an if around it may not reach it. The outermost is told first, so this
// comes before what the filter is applied to.
func (c *compiler) checkFilter(n *syntax.Filter, s *scope) {
	if filterOf(n.Name) == nil && !s.soft {
		c.fail(n, "No filter named %s.", value.ReprString(n.Name))
	}
}

// applyFilter compiles the application of a filter to a value.
func (c *compiler) applyFilter(n *syntax.Filter, s *scope) func(f *frame, v value.Value) (value.Value, error) {
	fn := filterOf(n.Name)
	if fn == nil {
		fn = func(*run, *args) (value.Value, error) {
			return value.Value{}, pyerr.Newf(pyerr.TemplateRuntime, "No filter named %s found.", value.ReprString(n.Name))
		}
	}
	if fast := fastFilter(n.Name); fast != nil && noArguments(&n.Args) {
		return func(f *frame, v value.Value) (value.Value, error) {
			if out, ok := fast(v); ok {
				return out, nil
			}
			v, err := fn(f.r, &args{pos: []value.Value{v}})
			return v, at(err, n)
		}
	}
	list := c.args(&n.Args, s)
	return func(f *frame, v value.Value) (value.Value, error) {
		base := len(f.r.stack)
		f.r.stack = append(f.r.stack, v)
		a := f.r.newArgs()
		err := list.eval(f, base, a)
		if err == nil {
			if err = f.r.m.Step(); err == nil {
				v, err = fn(f.r, a)
			}
		}
		f.r.endArgs(a, base)
		return v, at(err, n)
	}
}

// fastFilter gives the usual case of a filter without arguments; ok is false
// if the value is not of the usual kind.
func fastFilter(name string) func(v value.Value) (out value.Value, ok bool) {
	const short = 4096 // longer texts are charged
	switch name {
	case "trim":
		return func(v value.Value) (value.Value, bool) {
			if !v.IsStr() || len(v.AsStr()) > short {
				return v, false
			}
			return value.Str(value.Strip(v.AsStr())).WithMarkup(v.IsMarkup()), true
		}
	case "string":
		return func(v value.Value) (value.Value, bool) { return v, v.IsStr() }
	case "length", "count":
		return func(v value.Value) (value.Value, bool) {
			switch v.Kind() {
			case value.KindList, value.KindTuple:
				return value.Int(int64(len(v.Cells()))), true
			case value.KindDict:
				return value.Int(int64(v.AsDict().Len())), true
			}
			return v, false
		}
	case "list":
		return func(v value.Value) (value.Value, bool) { return v, v.Kind() == value.KindList }
	case "first":
		return func(v value.Value) (value.Value, bool) {
			if k := v.Kind(); (k == value.KindList || k == value.KindTuple) && len(v.Cells()) > 0 {
				return v.Cells()[0], true
			}
			return v, false
		}
	}
	return nil
}

// filterOf gives a filter by name, nil if there is none. The value comes first
// among a filter's arguments.
func filterOf(name string) nativeFunc {
	if f := textFilterOf(name); f != nil {
		return f
	}
	if f := numberFilterOf(name); f != nil {
		return f
	}
	if f := lazyFilterOf(name); f != nil {
		return f
	}
	return sequenceFilterOf(name)
}

// bound makes a filter of a function of bound parameters.
func bound(sig *signature, f func(r *run, b []value.Value) (value.Value, error)) nativeFunc {
	return func(r *run, a *args) (value.Value, error) {
		b, err := sig.bind(a)
		if err != nil {
			return value.Value{}, err
		}
		return f(r, b)
	}
}

// given reports whether an argument is there and not None.
func given(v value.Value) bool { return !isMissing(v) && !v.IsNone() }

// lowered is a sort key without case: Jinja2's ignore_case.
func lowered(v value.Value) value.Value {
	if v.IsStr() {
		return value.Str(value.Lower(v.AsStr())).WithMarkup(v.IsMarkup())
	}
	return v
}

// attrPath is an attribute as filters take it: "a.b.0", an int, or nothing.
type attrPath struct {
	parts []value.Value
	// def replaces undefined attributes if hasDef.
	def    value.Value
	hasDef bool
	fold   bool // fold case of the result
}

// newAttrPath reads the attribute argument of a filter; nothing or None is
// the empty path, which gives the value itself.
func newAttrPath(attr value.Value) attrPath {
	switch {
	case !given(attr):
		return attrPath{}
	case attr.IsStr():
		return attrPath{parts: pathParts(attr.AsStr())}
	}
	return attrPath{parts: []value.Value{attr}}
}

// get follows the path by item access of the sandbox, so that a missing
// step is undefined and the next one raises.
func (p *attrPath) get(r *run, v value.Value) (value.Value, error) {
	for _, part := range p.parts {
		var err error
		if v, err = getItem(r, v, part); err != nil {
			return v, err
		}
		if p.hasDef && v.IsUndefined() {
			v = p.def
		}
	}
	if p.fold {
		v = lowered(v)
	}
	return v, nil
}

// iterate is Python's iteration over a filter's value.
func iterate(r *run, v value.Value, do func(v value.Value) error) error {
	it, err := v.Iter()
	if err != nil {
		return err
	}
	return r.each(it, do)
}

// toMarkup is Markup(v).
func toMarkup(r *run, v value.Value) (value.Value, error) {
	s, err := value.StrOf(&r.m, v)
	return value.Markup(s), err
}
