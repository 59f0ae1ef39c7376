package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Slices are Python's: bounds are clipped, a step may be negative. A slice
// with step 1 shares memory with what it was cut from.

// slice compiles x[start:stop:step], which is Python's own operator and not
// the sandbox's getitem, so its faults are not turned into undefined.
func (c *compiler) slice(n *syntax.Getitem, sl *syntax.Slice, s *scope) exprFunc {
	obj := c.expr(n.Node, s)
	var parts [3]exprFunc
	for i, e := range []syntax.Expr{sl.Start, sl.Stop, sl.Step} {
		parts[i] = constant(value.None)
		if e != nil {
			parts[i] = c.expr(e, s)
		}
	}
	folding := c.folding
	return func(f *frame) (value.Value, error) {
		v, err := obj(f)
		if err != nil {
			return v, err
		}
		var b [3]value.Value
		for i := range parts {
			if b[i], err = parts[i](f); err != nil {
				return v, err
			}
		}
		out, err := sliceOf(f.r, v, b)
		if folding && pyerr.Is(err, pyerr.Type) {
			return noAttr(v, "slice"), nil
		}
		return out, at(err, n)
	}
}

// sliceOf is v[start:stop:step].
func sliceOf(r *run, v value.Value, b [3]value.Value) (value.Value, error) {
	switch v.Kind() {
	case value.KindUndefined:
		return v, value.RaiseUndefined(v)
	case value.KindDict:
		return v, pyerr.New(pyerr.Type, "unhashable type: 'slice'")
	case value.KindList, value.KindTuple:
		return sliceCells(r, v, b)
	case value.KindStr:
		return sliceText(r, v, b)
	case value.KindBytes:
		return sliceBytes(r, v, b)
	case value.KindObject:
		if rg, ok := v.AsObject().(*rangeObject); ok {
			return rg.slice(b)
		}
	}
	return v, pyerr.Newf(pyerr.Type, "'%s' object is not subscriptable", v.TypeName())
}

// members is the number of members from start to stop by step.
func members(start, stop, step int) int {
	switch {
	case step > 0 && start < stop:
		return (stop-start-1)/step + 1
	case step < 0 && stop < start:
		return (start-stop-1)/-step + 1
	}
	return 0
}

// bounds turns slice arguments into start, stop and step for n members.
func bounds(b [3]value.Value, n int) (start, stop, step int, err error) {
	var at [3]int
	for _, i := range [...]int{2, 0, 1} {
		k := b[i].Kind()
		switch {
		case k == value.KindNone:
		case k == value.KindInt || k == value.KindBool:
			const far = 1 << 62
			at[i] = int(min(max(b[i].AsInt(), -far), far))
		case k == value.KindBig:
			at[i] = 1 << 62 * b[i].AsBig().Sign()
		default:
			return 0, 0, 0, pyerr.New(pyerr.Type, "slice indices must be integers or None or have an __index__ method")
		}
	}
	step = at[2]
	if b[2].IsNone() {
		step = 1
	} else if step == 0 {
		return 0, 0, 0, pyerr.New(pyerr.Value, "slice step cannot be zero")
	}
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	clip := func(i, none int, isNone bool) int {
		if isNone {
			return none
		}
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	if step > 0 {
		return clip(at[0], 0, b[0].IsNone()), clip(at[1], n, b[1].IsNone()), step, nil
	}
	return clip(at[0], n-1, b[0].IsNone()), clip(at[1], -1, b[1].IsNone()), step, nil
}

// sliceCells cuts a list or tuple; with step 1 the result shares the cells.
func sliceCells(r *run, v value.Value, b [3]value.Value) (value.Value, error) {
	cells := v.Cells()
	start, stop, step, err := bounds(b, len(cells))
	if err != nil {
		return v, err
	}
	n := members(start, stop, step)
	var out []value.Value
	switch {
	case n == 0:
	case step == 1:
		out = cells[start : start+n : start+n]
	default:
		if err := r.m.Product(n, cellBytes); err != nil {
			return v, err
		}
		out = make([]value.Value, n)
		for i := range out {
			out[i] = cells[start+i*step]
		}
	}
	if v.Kind() == value.KindTuple {
		return value.Tuple(out), nil
	}
	return value.List(out), nil
}

// sliceText cuts a string by code points; with step 1 the result shares the
// bytes.
func sliceText(r *run, v value.Value, b [3]value.Value) (value.Value, error) {
	s := v.AsStr()
	if err := r.m.Scan(len(s)); err != nil {
		return v, err
	}
	length := value.RuneCount(s)
	start, stop, step, err := bounds(b, length)
	if err != nil {
		return v, err
	}
	n := members(start, stop, step)
	wide := length != len(s)
	if step == 1 && n > 0 {
		end := start + n
		if wide {
			start = value.Offset(s, start)
			end = start + value.Offset(s[start:], n)
		}
		return value.Str(s[start:end]).WithMarkup(v.IsMarkup()), nil
	}
	if err := r.m.Bytes(4 * len(s)); err != nil {
		return v, err
	}
	var out strings.Builder
	if !wide {
		for i := range n {
			out.WriteByte(s[start+i*step])
		}
	} else {
		runes := []rune(s)
		for i := range n {
			out.WriteRune(runes[start+i*step])
		}
	}
	return value.Str(out.String()).WithMarkup(v.IsMarkup()), nil
}
