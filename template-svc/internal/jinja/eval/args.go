package eval

import (
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

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

// signature binds arguments to the parameters of a Python function.
type signature struct {
	name     string
	params   []string
	required int
	hidden   int // parameters in front that the template does not give
}

// newSignature makes the signature of a function whose template-visible
// parameters are params, the first required ones without default.
func newSignature(name string, required int, params ...string) *signature {
	return &signature{name: name, required: required, params: params}
}

// bind gives one value per parameter; the zero Value where nothing was given.
// The result is a slice of its own.
func (s *signature) bind(a *args) ([]value.Value, error) {
	out := make([]value.Value, len(s.params))
	if len(a.pos) > len(s.params) {
		return nil, s.tooMany(len(a.pos))
	}
	copy(out, a.pos)
	given := make([]bool, len(s.params))
	for i := range a.pos {
		given[i] = true
	}
	for _, k := range a.kw {
		i := 0
		for i < len(s.params) && s.params[i] != k.name {
			i++
		}
		if i == len(s.params) {
			return nil, pyerr.Newf(pyerr.Type, "%s() got an unexpected keyword argument %s", s.name, value.ReprString(k.name))
		}
		if given[i] {
			return nil, pyerr.Newf(pyerr.Type, "%s() got multiple values for argument %s", s.name, value.ReprString(k.name))
		}
		out[i], given[i] = k.value, true
	}
	var missing []string
	for i := range s.required {
		if !given[i] {
			missing = append(missing, value.ReprString(s.params[i]))
		}
	}
	if missing != nil {
		return nil, s.missing(missing)
	}
	return out, nil
}

// tooMany is CPython's message for more positional arguments than
// parameters; hidden parameters count.
func (s *signature) tooMany(n int) error {
	takes := strconv.Itoa(len(s.params) + s.hidden)
	plural := "s"
	if s.required < len(s.params) {
		takes = "from " + strconv.Itoa(s.required+s.hidden) + " to " + takes
	} else if len(s.params)+s.hidden == 1 {
		plural = ""
	}
	were := "were"
	if n+s.hidden == 1 {
		were = "was"
	}
	return pyerr.Newf(pyerr.Type, "%s() takes %s positional argument%s but %d %s given", s.name, takes, plural,
		n+s.hidden, were)
}

// missing is CPython's message for required parameters that got no
// argument.
func (s *signature) missing(names []string) error {
	n := len(names)
	text := names[0]
	switch {
	case n == 2:
		text = names[0] + " and " + names[1]
	case n > 2:
		text = strings.Join(names[:n-1], ", ") + ", and " + names[n-1]
	}
	plural := "s"
	if n == 1 {
		plural = ""
	}
	return pyerr.Newf(pyerr.Type, "%s() missing %d required positional argument%s: %s", s.name, n, plural, text)
}

// cellBytes is what one more cell of a list is charged.
const cellBytes = 24

// objectBytes is what an object of the engine is charged.
const objectBytes = 256

// key charges the hashing of a dict key and the entry it may make.
func (r *run) key(v value.Value) error {
	if err := value.ChargeKey(&r.m, v); err != nil {
		return err
	}
	return r.m.Bytes(2 * cellBytes)
}

// cell charges one list cell and one step.
func (r *run) cell() error {
	if err := r.m.Step(); err != nil {
		return err
	}
	return r.m.Bytes(cellBytes)
}

// each calls do with every value of it, counting rounds.
func (r *run) each(it value.Iterator, do func(v value.Value) error) error {
	for {
		v, ok, err := it.Next()
		if !ok || err != nil {
			return err
		}
		if err := r.m.Step(); err != nil {
			return err
		}
		if err := do(v); err != nil {
			return err
		}
	}
}

// collect is Python's list(v), as a slice that must not be changed.
func (r *run) collect(v value.Value) ([]value.Value, error) {
	if k := v.Kind(); k == value.KindList || k == value.KindTuple {
		return v.Cells(), nil
	}
	it, err := v.Iter()
	if err != nil {
		return nil, err
	}
	var out []value.Value
	err = r.each(it, func(v value.Value) error {
		out = append(out, v)
		return r.m.Bytes(cellBytes)
	})
	return out, err
}
