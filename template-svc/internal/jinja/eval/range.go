package eval

import (
	"math"
	"strconv"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// A range is three numbers; its members are made when they are asked for.

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
func (o *rangeObject) EqualTo(_ *limit.Meter, other value.Object) (bool, error) {
	p, ok := other.(*rangeObject)
	return ok && o.n == p.n && (o.n == 0 || o.start == p.start && (o.n == 1 || o.step == p.step)), nil
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
