package eval

import (
	"math"
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// builtin gives a global of the environment, the zero Value if there is none
// of that name.
func builtin(name string) value.Value {
	switch name {
	case "range":
		return function1("function", "range", newRange)
	case "dict":
		return function1("type", "dict", func(r *run, a *args) (value.Value, error) {
			d, err := newDict(r, a)
			return value.OfDict(d), err
		})
	case "namespace":
		return function1("type", "jinja2.utils.Namespace", func(r *run, a *args) (value.Value, error) {
			d, err := newDict(r, a)
			return value.OfObject(&namespace{attrs: d}), err
		})
	case "cycler":
		return function1("type", "jinja2.utils.Cycler", newCycler)
	case "joiner":
		return function1("type", "jinja2.utils.Joiner", newJoiner)
	case "lipsum":
		return function1("function", "generate_lorem_ipsum", lipsum)
	case "raise_exception":
		return function1("function", "raise_exception", raiseException)
	case "strftime_now":
		return function1("function", "strftime_now", strftimeNow)
	}
	return value.Value{}
}

var raiseSignature = newSignature("raise_exception", 1, "message")

// raiseException is the global raise_exception(message): TemplateError with
// the text of message.
func raiseException(r *run, a *args) (value.Value, error) {
	b, err := raiseSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	s, err := value.StrOf(&r.m, b[0])
	if err != nil {
		return value.Value{}, err
	}
	return value.Value{}, pyerr.New(pyerr.Template, s)
}

var strftimeSignature = newSignature("strftime_now", 1, "format")

// strftimeNow is the global strftime_now(format): the render's clock, in
// its own zone, written as C does.
func strftimeNow(r *run, a *args) (value.Value, error) {
	b, err := strftimeSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	if !b[0].IsStr() {
		return value.Value{}, typeError("strftime() argument 1 must be str, not %s", b[0].TypeName())
	}
	// A conversion may be padded to 999 columns.
	if err := r.m.Product(1+strings.Count(b[0].AsStr(), "%"), 1000); err != nil {
		return value.Value{}, err
	}
	if err := r.m.Bytes(len(b[0].AsStr())); err != nil {
		return value.Value{}, err
	}
	return value.Str(strftime(r.now(), b[0].AsStr())), nil
}

// newDict is dict(mapping or pairs, **kwargs).
func newDict(r *run, a *args) (*value.Dict, error) {
	if err := r.m.Bytes(objectBytes); err != nil {
		return nil, err
	}
	if len(a.pos) > 1 {
		return nil, typeError("dict expected at most 1 argument, got %d", len(a.pos))
	}
	d := value.NewDict(len(a.kw))
	if len(a.pos) == 1 {
		if a.pos[0].Kind() == value.KindDict {
			src := a.pos[0].AsDict()
			if err := r.m.Product(src.Len(), 2*cellBytes); err != nil {
				return nil, err
			}
			d = src.Clone()
		} else if err := dictOfPairs(r, d, a.pos[0]); err != nil {
			return nil, err
		}
	}
	for _, k := range a.kw {
		if err := r.m.Bytes(2 * cellBytes); err != nil {
			return nil, err
		}
		d.SetStr(k.name, k.value)
	}
	return d, nil
}

// dictOfPairs fills d from an iterable of pairs, with the messages of
// Python's dict().
func dictOfPairs(r *run, d *value.Dict, pairs value.Value) error {
	if pairs.IsUndefined() {
		return value.RaiseUndefined(pairs)
	}
	it, err := pairs.Iter()
	if err != nil {
		return err
	}
	n := 0
	return r.each(it, func(p value.Value) error {
		if !p.CanIter() {
			return typeError("cannot convert dictionary update sequence element #%d to a sequence", n)
		}
		cells, err := r.collect(p)
		if err != nil {
			return err
		}
		if len(cells) != 2 {
			return valueError("dictionary update sequence element #" + strconv.Itoa(n) + " has length " +
				strconv.Itoa(len(cells)) + "; 2 is required")
		}
		n++
		if err := r.key(cells[0]); err != nil {
			return err
		}
		return d.Set(cells[0], cells[1])
	})
}

// namespace is an object whose attributes a template may set. It belongs to
// one render.
type namespace struct{ attrs *value.Dict }

// TypeName is Namespace.
func (n *namespace) TypeName() string { return "Namespace" }

// Module is jinja2.utils.
func (n *namespace) Module() string { return "jinja2.utils" }

// Attr gives an attribute that was set.
func (n *namespace) Attr(name string) (value.Value, bool) { return n.attrs.GetStr(name) }

// AppendRepr prints "<Namespace {...}>".
func (n *namespace) AppendRepr(p *value.Printer) error {
	if err := p.Write("<Namespace "); err != nil {
		return err
	}
	if err := p.Repr(value.OfDict(n.attrs)); err != nil {
		return err
	}
	return p.Write(">")
}

// maxRange is the sandbox's bound on the length of a range.
const maxRange = 100000

// rangeObject is range(start, stop, step) with n members.
type rangeObject struct {
	start, step int64
	stop        int64
	n           int
}

// newRange is range() of the sandbox: at most 100,000 members.
func newRange(r *run, a *args) (value.Value, error) {
	if len(a.kw) > 0 {
		return value.Value{}, typeError("safe_range() got an unexpected keyword argument %s", value.ReprString(a.kw[0].name))
	}
	switch n := len(a.pos); {
	case n == 0:
		return value.Value{}, typeError("range expected at least 1 argument, got 0")
	case n > 3:
		return value.Value{}, typeError("range expected at most 3 arguments, got %d", n)
	}
	var part [3]int64
	for i, v := range a.pos {
		if v.Kind() == value.KindBig {
			return value.Value{}, pyerr.New(pyerr.Overflow, "Python int too large to convert to C ssize_t")
		}
		var err error
		if part[i], err = asInt(v, 0); err != nil {
			return value.Value{}, err
		}
	}
	o := &rangeObject{stop: part[0], step: 1}
	if len(a.pos) > 1 {
		o.start, o.stop = part[0], part[1]
	}
	if len(a.pos) > 2 {
		if o.step = part[2]; o.step == 0 {
			return value.Value{}, valueError("range() arg 3 must not be zero")
		}
	}
	n := o.count()
	if n > math.MaxInt64 {
		return value.Value{}, pyerr.New(pyerr.Overflow, "Python int too large to convert to C ssize_t")
	}
	if n > maxRange {
		return value.Value{}, errRange()
	}
	o.n = int(n)
	return value.OfObject(o), nil
}

// errRange is the sandbox's refusal of a range that is too long.
func errRange() error {
	return pyerr.New(pyerr.Overflow, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).")
}

// count is the number of members, capped so that it cannot overflow.
func (o *rangeObject) count() uint64 {
	switch {
	case o.step > 0 && o.start < o.stop:
		return (uint64(o.stop)-uint64(o.start)-1)/uint64(o.step) + 1
	case o.step < 0 && o.start > o.stop:
		return (uint64(o.start)-uint64(o.stop)-1)/(-uint64(o.step)) + 1
	}
	return 0
}

// TypeName is range.
func (o *rangeObject) TypeName() string { return "range" }

// Len is the number of members.
func (o *rangeObject) Len() (int, error) { return o.n, nil }

// Item gives a member by index.
func (o *rangeObject) Item(key value.Value) (value.Value, bool) {
	i, ok := index(key, o.n)
	return value.Int(o.start + int64(i)*o.step), ok
}

// Attr gives start, stop, step and the methods.
func (o *rangeObject) Attr(name string) (value.Value, bool) {
	switch name {
	case "start":
		return value.Int(o.start), true
	case "stop":
		return value.Int(o.stop), true
	case "step":
		return value.Int(o.step), true
	case "count", "index":
		return method(name, func(r *run, a *args) (value.Value, error) {
			cells, err := r.collect(value.OfObject(o))
			if err != nil {
				return value.Value{}, err
			}
			if name == "count" {
				return listCount(r, value.List(cells), a)
			}
			v, err := listIndex(r, value.List(cells), a)
			if pyerr.Is(err, pyerr.Value) {
				err = valueError("sequence.index(x): x not in sequence")
			}
			return v, err
		}), true
	}
	return value.Value{}, false
}

// EqualTo compares members.
func (o *rangeObject) EqualTo(other value.Object) bool {
	p, ok := other.(*rangeObject)
	return ok && o.n == p.n && (o.n == 0 || o.start == p.start && (o.n == 1 || o.step == p.step))
}

// AppendRepr prints "range(0, 3)".
func (o *rangeObject) AppendRepr(p *value.Printer) error {
	s := "range(" + strconv.FormatInt(o.start, 10) + ", " + strconv.FormatInt(o.stop, 10)
	if o.step != 1 {
		s += ", " + strconv.FormatInt(o.step, 10)
	}
	return p.Write(s + ")")
}

// rangeIter walks a range.
type rangeIter struct {
	next, step int64
	left       int
}

// Next gives the next member.
func (it *rangeIter) Next() (value.Value, bool, error) {
	if it.left == 0 {
		return value.Value{}, false, nil
	}
	it.left--
	v := value.Int(it.next)
	it.next += it.step
	return v, true, nil
}

// Iter walks the members.
func (o *rangeObject) Iter() value.Iterator { return &rangeIter{o.start, o.step, o.n} }

// Reversed walks the members from the end.
func (o *rangeObject) Reversed() value.Iterator {
	return &rangeIter{o.start + int64(o.n-1)*o.step, -o.step, o.n}
}

// Contains is a test without iteration.
func (o *rangeObject) Contains(_ *limit.Meter, v value.Value) (bool, error) {
	if !v.IsNumber() || v.Kind() == value.KindBig {
		return false, nil
	}
	if v.Kind() == value.KindFloat {
		i, err := value.TruncFloat(v.AsFloat())
		if err != nil || float64(i.AsInt()) != v.AsFloat() {
			return false, nil
		}
		v = i
	}
	if o.n == 0 {
		return false, nil
	}
	d := v.AsInt() - o.start
	return d%o.step == 0 && d/o.step >= 0 && d/o.step < int64(o.n), nil
}

// slice gives a part of the range, which is a range again.
func (o *rangeObject) slice(b [3]value.Value) (value.Value, error) {
	start, stop, step, err := bounds(b, o.n)
	if err != nil {
		return value.Value{}, err
	}
	s := &rangeObject{start: o.start + int64(start)*o.step, step: o.step * int64(step)}
	s.stop = o.start + int64(stop)*o.step
	s.n = members(start, stop, step)
	return value.OfObject(s), nil
}

// cycler is the object of cycler(...).
type cycler struct {
	items []value.Value
	pos   int
}

// newCycler is cycler(...): RuntimeError without items.
func newCycler(r *run, a *args) (value.Value, error) {
	if len(a.kw) > 0 {
		return value.Value{}, typeError("Cycler.__init__() got an unexpected keyword argument %s",
			value.ReprString(a.kw[0].name))
	}
	if len(a.pos) == 0 {
		return value.Value{}, pyerr.New("RuntimeError", "at least one item has to be provided")
	}
	if err := r.m.Product(len(a.pos), cellBytes); err != nil {
		return value.Value{}, err
	}
	return value.OfObject(&cycler{items: a.keep().pos}), nil
}

// TypeName is Cycler.
func (c *cycler) TypeName() string { return "Cycler" }

// Module is jinja2.utils.
func (c *cycler) Module() string { return "jinja2.utils" }

// Attr gives current, items, pos, next and reset.
func (c *cycler) Attr(name string) (value.Value, bool) {
	switch name {
	case "current":
		return c.items[c.pos], true
	case "pos":
		return value.Int(int64(c.pos)), true
	case "items":
		return value.Tuple(c.items), true
	case "next":
		return method(name, func(_ *run, _ *args) (value.Value, error) {
			v := c.items[c.pos]
			c.pos = (c.pos + 1) % len(c.items)
			return v, nil
		}), true
	case "reset":
		return method(name, func(_ *run, _ *args) (value.Value, error) {
			c.pos = 0
			return value.None, nil
		}), true
	}
	return value.Value{}, false
}

// joiner is the object of joiner(sep).
type joiner struct {
	sep  value.Value
	used bool
}

var joinerSignature = newSignature("Joiner.__init__", 0, "sep")

// newJoiner is joiner(sep=', ').
func newJoiner(_ *run, a *args) (value.Value, error) {
	b, err := joinerSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	if isMissing(b[0]) {
		b[0] = value.Str(", ")
	}
	return value.OfObject(&joiner{sep: b[0]}), nil
}

// TypeName is Joiner.
func (j *joiner) TypeName() string { return "Joiner" }

// Module is jinja2.utils.
func (j *joiner) Module() string { return "jinja2.utils" }

// Attr gives sep and used.
func (j *joiner) Attr(name string) (value.Value, bool) {
	switch name {
	case "sep":
		return j.sep, true
	case "used":
		return value.Bool(j.used), true
	}
	return value.Value{}, false
}

// call gives nothing the first time and the separator from then on.
func (j *joiner) call(_ *run, _ *args) (value.Value, error) {
	if !j.used {
		j.used = true
		return value.Str(""), nil
	}
	return j.sep, nil
}

// blockSet is self: its attributes are the template's blocks.
type blockSet struct {
	r      *run
	blocks map[string]*blockDef
}

// TypeName is TemplateReference.
func (s *blockSet) TypeName() string { return "TemplateReference" }

// Module is jinja2.runtime.
func (s *blockSet) Module() string { return "jinja2.runtime" }

// Item gives a block as a function.
func (s *blockSet) Item(key value.Value) (value.Value, bool) {
	b := s.blocks[key.Text()]
	if b == nil {
		return value.Value{}, false
	}
	return method(b.node.Name, func(r *run, _ *args) (value.Value, error) {
		start := len(r.out)
		err := b.run(r)
		text := r.cut(start)
		return value.Str(text).WithMarkup(r.autoescape), err
	}), true
}

// loremWords feed lipsum.
const loremWords = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore " +
	"et dolore magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris nisi"

var lipsumSignature = newSignature("generate_lorem_ipsum", 0, "n", "html", "min", "max")

// lipsum makes filler text. Jinja2 draws it at random; here a render always
// gives the same.
func lipsum(r *run, a *args) (value.Value, error) {
	b, err := lipsumSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	var size [3]int64
	for i, def := range []int64{5, 20, 100} {
		arg := b[[]int{0, 2, 3}[i]]
		if size[i], err = asInt(arg, def); err != nil {
			return value.Value{}, err
		}
	}
	asHTML := isMissing(b[1]) || b[1].Truth()
	words := strings.Fields(loremWords)
	if size[1] >= size[2] {
		return value.Value{}, valueError("empty range for randrange() (" + strconv.FormatInt(size[1], 10) + ", " +
			strconv.FormatInt(size[2], 10) + ", " + strconv.FormatInt(size[2]-size[1], 10) + ")")
	}
	p := value.Printer{Meter: &r.m}
	for i := range size[0] {
		if err := lipsumParagraph(r, &p, words, size[1]+int64(r.random(uint64(size[2]-size[1]))), i > 0, asHTML); err != nil {
			return value.Value{}, err
		}
	}
	return value.StrOfBytes(p.Buf).WithMarkup(asHTML), nil
}

// lipsumParagraph writes one paragraph of n words.
func lipsumParagraph(r *run, p *value.Printer, words []string, n int64, follows, asHTML bool) error {
	open, end := "\n\n", "."
	if asHTML {
		open, end = "\n<p>", ".</p>"
	}
	if !follows {
		open = strings.TrimLeft(open, "\n")
	}
	if err := p.Write(open); err != nil {
		return err
	}
	for i := range n {
		w := words[r.random(uint64(len(words)))]
		if i == 0 {
			w = value.Capitalize(w)
		} else {
			w = " " + w
		}
		if err := r.m.Step(); err != nil {
			return err
		}
		if err := p.Write(w); err != nil {
			return err
		}
	}
	return p.Write(end)
}

// random gives a number below n from a fixed sequence (xorshift).
func (r *run) random(n uint64) uint64 {
	r.seed ^= r.seed << 13
	r.seed ^= r.seed >> 7
	r.seed ^= r.seed << 17
	return r.seed % n
}
