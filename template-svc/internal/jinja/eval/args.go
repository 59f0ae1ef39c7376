package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Arguments are computed onto one stack per render and handed on as a
// window into it. A callee that keeps arguments, such as a generator,
// copies them; every other call costs no allocation.

// keyword is one keyword argument.
type keyword struct {
	name  string
	value value.Value
}

// args are the arguments of one call. The slices belong to the caller and are
// used again after the call: what keeps them must copy.
type args struct {
	pos []value.Value
	kw  []keyword
}

// newArgs gives an argument list for one call; endArgs takes it back, together
// with what the call has on the stack from base on.
func (r *run) newArgs() *args {
	if k := len(r.argFree) - 1; k >= 0 {
		a := r.argFree[k]
		r.argFree = r.argFree[:k]
		return a
	}
	return &args{}
}

func (r *run) endArgs(a *args, base int) {
	a.pos, a.kw = nil, nil
	r.argFree = append(r.argFree, a)
	r.stack = r.stack[:base]
}

// keep gives a copy that outlives the call.
func (a *args) keep() *args {
	return &args{pos: append([]value.Value(nil), a.pos...), kw: append([]keyword(nil), a.kw...)}
}

// argList is a compiled argument list.
type argList struct {
	pos      []exprFunc
	kw       []keywordExpr
	star     exprFunc
	starStar exprFunc
}

type keywordExpr struct {
	name string
	expr exprFunc
}

// args compiles an argument list; the expressions run in the order of the
// source, starred ones last.
func (c *compiler) args(a *syntax.Args, s *scope) *argList {
	l := &argList{}
	if len(a.Kw) > 1 {
		c.checkKeywords(a.Kw[0].Value, a.Kw, false)
	}
	for _, e := range a.Pos {
		l.pos = append(l.pos, c.expr(e, s))
	}
	for _, k := range a.Kw {
		l.kw = append(l.kw, keywordExpr{k.Key, c.expr(k.Value, s)})
	}
	if a.Star != nil {
		l.star = c.expr(a.Star, s)
	}
	if a.StarStar != nil {
		l.starStar = c.expr(a.StarStar, s)
	}
	return l
}

// eval computes the arguments onto the run's stack, after what the caller has
// pushed from base on. The caller resets the stack to base after the call.
func (l *argList) eval(f *frame, base int, out *args) error {
	r := f.r
	if n := len(l.pos); n > 8 {
		if err := r.m.Work(n); err != nil {
			return err
		}
	}
	for _, e := range l.pos {
		v, err := e(f)
		if err != nil {
			return err
		}
		r.stack = append(r.stack, v)
	}
	if l.kw != nil || l.star != nil || l.starStar != nil {
		if err := l.rest(f, out); err != nil {
			return err
		}
	}
	out.pos = r.stack[base:len(r.stack):len(r.stack)]
	return nil
}

// rest computes keyword and starred arguments, which few calls have.
func (l *argList) rest(f *frame, out *args) error {
	if len(l.kw) > 0 {
		out.kw = make([]keyword, 0, len(l.kw))
	}
	for i := range l.kw {
		v, err := l.kw[i].expr(f)
		if err != nil {
			return err
		}
		out.kw = append(out.kw, keyword{l.kw[i].name, v})
	}
	if l.star != nil {
		if err := l.spread(f); err != nil {
			return err
		}
	}
	if l.starStar != nil {
		return l.spreadKeywords(f, out)
	}
	return nil
}

// spread pushes the members of *x: TypeError if x is not iterable.
func (l *argList) spread(f *frame) error {
	v, err := l.star(f)
	if err != nil {
		return err
	}
	it, err := v.Iter()
	if err != nil {
		return pyerr.Newf(pyerr.Type, "Value after * must be an iterable, not %s", v.TypeName())
	}
	return f.r.each(it, func(v value.Value) error {
		f.r.stack = append(f.r.stack, v)
		return f.r.cell()
	})
}

// spreadKeywords adds the entries of **x: TypeError if x is no mapping, a
// key no string, or a name given twice.
func (l *argList) spreadKeywords(f *frame, out *args) error {
	v, err := l.starStar(f)
	if err != nil {
		return err
	}
	if v.IsUndefined() {
		return value.RaiseUndefined(v)
	}
	if v.Kind() != value.KindDict {
		return pyerr.Newf(pyerr.Type, "jinja2.sandbox.SandboxedEnvironment.call() argument after ** must be a mapping, "+
			"not %s", v.TypeName())
	}
	for _, e := range v.AsDict().Entries() {
		if !e.Key.IsStr() {
			return pyerr.New(pyerr.Type, "keywords must be strings")
		}
		name := e.Key.AsStr()
		for _, k := range out.kw {
			if k.name == name {
				return pyerr.Newf(pyerr.Type, "jinja2.sandbox.SandboxedEnvironment.call() got multiple values for "+
					"keyword argument %s", value.ReprString(name))
			}
		}
		out.kw = append(out.kw, keyword{name, e.Val})
		if err := f.r.cell(); err != nil {
			return err
		}
	}
	return nil
}
