package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// batch and slice cut a sequence into lists. Both are lazy: faults of their
// arguments come with the first step.

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
		if given(b[2]) && !isNumber && !b[1].IsNumber() {
			_, err := value.Compare(&r.m, value.Less, value.Int(int64(len(out))), b[1])
			return value.Value{}, false, err
		}
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
			if b[1].IsUndefined() {
				return value.Value{}, false, value.RaiseUndefined(b[1])
			}
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
