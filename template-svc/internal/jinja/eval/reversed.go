package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Only sequences can be walked from their end; a generator cannot.

// reversed is Python's reversed(v).
func reversed(r *run, v value.Value) (value.Iterator, error) {
	switch v.Kind() {
	case value.KindUndefined:
		return value.FromCells(nil), nil
	case value.KindList, value.KindTuple:
		cells := v.Cells()
		i := len(cells)
		return &stepper{func() (value.Value, bool, error) {
			if i == 0 {
				return value.Value{}, false, nil
			}
			i--
			return cells[i], true, nil
		}}, nil
	case value.KindDict:
		return (&dictView{name: "keys", dict: v.AsDict()}).Reversed(), nil
	case value.KindStr, value.KindBytes:
		list, err := r.collect(v)
		if err != nil {
			return nil, err
		}
		return reversed(r, value.List(list))
	case value.KindObject:
		if o, ok := v.AsObject().(value.Reversible); ok {
			return o.Reversed(), nil
		}
	}
	return nil, typeError("'%s' object is not reversible", v.TypeName())
}

// stepper is an iterator made of a function.
type stepper struct {
	next func() (value.Value, bool, error)
}

// Next calls the function.
func (s *stepper) Next() (value.Value, bool, error) { return s.next() }

// lastFilter is last: TypeError for what has no end to start from,
// generators among them.
func lastFilter(r *run, b []value.Value) (value.Value, error) {
	it, err := reversed(r, b[0])
	if err != nil {
		return value.Value{}, err
	}
	v, ok, err := it.Next()
	if !ok && err == nil {
		return hinted("No last item, sequence was empty."), nil
	}
	return v, err
}

// reverseFilter is reverse: a text from back to front, or a lazy sequence.
func reverseFilter(r *run, b []value.Value) (value.Value, error) {
	v := b[0]
	if v.IsStr() {
		return sliceOf(r, v, [3]value.Value{value.None, value.None, value.Int(-1)})
	}
	if it, err := reversed(r, v); err == nil {
		return value.NewGenerator(reversedName(v.TypeName()), it.Next), nil
	}
	cells, err := r.collect(v)
	if pyerr.Is(err, pyerr.Type) {
		return v, pyerr.New(pyerr.FilterArgument, "argument must be iterable")
	}
	if err != nil {
		return v, err
	}
	return sliceOf(r, value.List(cells), [3]value.Value{value.None, value.None, value.Int(-1)})
}

// reversedName is the type of reversed(v) by the type of v.
func reversedName(of string) string {
	switch of {
	case "list":
		return "list_reverseiterator"
	case "dict", "dict_keys":
		return "dict_reversekeyiterator"
	case "dict_values":
		return "dict_reversevalueiterator"
	case "dict_items":
		return "dict_reverseitemiterator"
	case "range":
		return "range_iterator"
	}
	return "reversed"
}
