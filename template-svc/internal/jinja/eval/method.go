package eval

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// dictMethods gives a method of dict that changes nothing.
func dictMethods(name string) methodFunc {
	switch name {
	case "get":
		return dictGet
	case "items", "keys", "values":
		return func(_ *run, self value.Value, a *args) (value.Value, error) {
			if err := a.arity("dict", name, 0, 0); err != nil {
				return self, err
			}
			return value.OfObject(&dictView{name: name, dict: self.AsDict()}), nil
		}
	case "copy":
		return func(r *run, self value.Value, a *args) (value.Value, error) {
			return self, a.arity("dict", name, 0, 0)
		}
	case "fromkeys":
		return dictFromKeys
	}
	return nil
}

// dictGet is dict.get(key, default=None).
func dictGet(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity("dict", "get", 1, 2); err != nil {
		return self, err
	}
	if err := value.ChargeKey(&r.m, a.pos[0]); err != nil {
		return self, err
	}
	v, ok, err := self.AsDict().Get(a.pos[0])
	switch {
	case ok || err != nil:
		return v, err
	case len(a.pos) > 1:
		return a.pos[1], nil
	}
	return value.None, nil
}

// dictFromKeys is dict.fromkeys(iterable, value=None).
func dictFromKeys(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity("dict", "fromkeys", 1, 2); err != nil {
		return self, err
	}
	val := value.None
	if len(a.pos) > 1 {
		val = a.pos[1]
	}
	it, err := a.pos[0].Iter()
	if err != nil {
		return self, err
	}
	d := value.NewDict(0)
	err = r.each(it, func(k value.Value) error {
		if err := r.key(k); err != nil {
			return err
		}
		return d.Set(k, val)
	})
	return value.OfDict(d), err
}

// dictView is dict.keys(), values() or items().
type dictView struct {
	name string
	dict *value.Dict
}

// TypeName is dict_keys, dict_values or dict_items.
func (d *dictView) TypeName() string { return "dict_" + d.name }

// Unhashable reports that keys and items, being set-like, are no dict keys.
func (d *dictView) Unhashable() bool { return d.name != "values" }

// Len is the number of entries.
func (d *dictView) Len() (int, error) { return d.dict.Len(), nil }

// cell is what the view shows of an entry.
func (d *dictView) cell(e value.Entry) value.Value {
	switch d.name {
	case "keys":
		return e.Key
	case "values":
		return e.Val
	}
	return value.Tuple([]value.Value{e.Key, e.Val})
}

// viewIter walks a view; step is 1 or -1.
type viewIter struct {
	view     *dictView
	at, step int
}

// Next gives the next entry in the direction of step.
func (it *viewIter) Next() (value.Value, bool, error) {
	es := it.view.dict.Entries()
	if it.at < 0 || it.at >= len(es) {
		return value.Value{}, false, nil
	}
	it.at += it.step
	return it.view.cell(es[it.at-it.step]), true, nil
}

// Contains looks a key up; the other views are searched.
func (d *dictView) Contains(m *limit.Meter, v value.Value) (bool, error) {
	if d.name == "keys" {
		return value.Contains(m, v, value.OfDict(d.dict))
	}
	cells := make([]value.Value, 0, d.dict.Len())
	for _, e := range d.dict.Entries() {
		cells = append(cells, d.cell(e))
	}
	return value.Contains(m, v, value.List(cells))
}

// Iter walks the entries in order.
func (d *dictView) Iter() value.Iterator { return &viewIter{view: d, step: 1} }

// Reversed walks the entries from the end.
func (d *dictView) Reversed() value.Iterator {
	return &viewIter{view: d, at: d.dict.Len() - 1, step: -1}
}

// AppendRepr prints "dict_keys([...])".
func (d *dictView) AppendRepr(p *value.Printer) error {
	cells := make([]value.Value, 0, d.dict.Len())
	for _, e := range d.dict.Entries() {
		cells = append(cells, d.cell(e))
	}
	if err := p.Write("dict_" + d.name + "("); err != nil {
		return err
	}
	if err := p.Repr(value.List(cells)); err != nil {
		return err
	}
	return p.Write(")")
}

// listMethods gives a method of list or tuple that changes nothing.
func listMethods(name string) methodFunc {
	switch name {
	case "count":
		return listCount
	case "index":
		return listIndex
	case "copy":
		return func(_ *run, self value.Value, a *args) (value.Value, error) {
			return self, a.arity("list", name, 0, 0)
		}
	}
	return nil
}

// listCount is count(x) of list and tuple.
func listCount(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity(self.TypeName(), "count", 1, 1); err != nil {
		return self, err
	}
	n := int64(0)
	for _, c := range self.Cells() {
		if err := r.m.Step(); err != nil {
			return self, err
		}
		same, err := value.Equal(&r.m, c, a.pos[0])
		if err != nil {
			return self, err
		}
		if same {
			n++
		}
	}
	return value.Int(n), nil
}

// listIndex is index(x, start, stop) of list and tuple: ValueError if x is
// not there.
func listIndex(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity(self.TypeName(), "index", 1, 3); err != nil {
		return self, err
	}
	cells := self.Cells()
	from, err := sliceIndex(a.at(1), 0, len(cells))
	if err != nil {
		return self, err
	}
	to, err := sliceIndex(a.at(2), len(cells), len(cells))
	if err != nil {
		return self, err
	}
	for i := from; i < to; i++ {
		if err := r.m.Step(); err != nil {
			return self, err
		}
		same, err := value.Equal(&r.m, cells[i], a.pos[0])
		if same || err != nil {
			return value.Int(int64(i)), err
		}
	}
	if self.Kind() == value.KindTuple {
		return self, valueError("tuple.index(x): x not in tuple")
	}
	shown, err := value.ReprOf(&r.m, a.pos[0])
	if err != nil {
		return self, err
	}
	return self, valueError(shown + " is not in list")
}

// numberAttr gives the data attributes of ints and floats.
func numberAttr(v value.Value, name string) (value.Value, bool) {
	zero := value.Int(0)
	if v.Kind() == value.KindFloat {
		zero = value.Float(0)
	} else {
		v, _ = value.Unary("+", v)
	}
	switch name {
	case "real":
		return v, true
	case "imag":
		return zero, true
	case "numerator":
		return v, v.Kind() != value.KindFloat
	case "denominator":
		return value.Int(1), v.Kind() != value.KindFloat
	}
	return value.Value{}, false
}

// noArgs wraps a method without parameters.
func noArgs(owner, name string, f func(v value.Value) (value.Value, error)) methodFunc {
	return func(_ *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity(owner, name, 0, 0); err != nil {
			return self, err
		}
		return f(self)
	}
}

// intMethods gives a method of int, which bool shares.
func intMethods(name string) methodFunc {
	switch name {
	case "bit_length":
		return noArgs("int", name, func(v value.Value) (value.Value, error) {
			return value.Int(int64(v.AsBig().BitLen())), nil
		})
	case "bit_count":
		return noArgs("int", name, func(v value.Value) (value.Value, error) {
			n := 0
			for _, w := range v.AsBig().Bits() {
				n += bits.OnesCount(uint(w))
			}
			return value.Int(int64(n)), nil
		})
	case "conjugate":
		return noArgs("int", name, func(v value.Value) (value.Value, error) { return value.Unary("+", v) })
	case "as_integer_ratio":
		return noArgs("int", name, func(v value.Value) (value.Value, error) {
			v, err := value.Unary("+", v)
			return value.Tuple([]value.Value{v, value.Int(1)}), err
		})
	}
	return nil
}

// floatMethods gives a method of float.
func floatMethods(name string) methodFunc {
	switch name {
	case "is_integer":
		return noArgs("float", name, func(v value.Value) (value.Value, error) {
			f := v.AsFloat()
			return value.Bool(f == math.Trunc(f) && !math.IsInf(f, 0)), nil
		})
	case "conjugate":
		return noArgs("float", name, func(v value.Value) (value.Value, error) { return v, nil })
	case "hex":
		return noArgs("float", name, func(v value.Value) (value.Value, error) {
			return value.Str(floatHex(v.AsFloat())), nil
		})
	case "as_integer_ratio":
		return noArgs("float", name, floatRatio)
	}
	return nil
}

// floatRatio is float.as_integer_ratio: the exact quotient.
func floatRatio(v value.Value) (value.Value, error) {
	f := v.AsFloat()
	switch {
	case math.IsInf(f, 0):
		return v, pyerr.New(pyerr.Overflow, "cannot convert Infinity to integer ratio")
	case math.IsNaN(f):
		return v, valueError("cannot convert NaN to integer ratio")
	}
	q := new(big.Rat).SetFloat64(f)
	return value.Tuple([]value.Value{value.Big(q.Num()), value.Big(q.Denom())}), nil
}

// floatHex is float.hex: thirteen hexadecimal digits and a decimal exponent
// without leading zeros.
func floatHex(f float64) string {
	if f == 0 || math.IsInf(f, 0) || math.IsNaN(f) {
		s := value.FloatRepr(f)
		if f == 0 {
			s = strings.Replace(s, "0.0", "0x0.0p+0", 1)
		}
		return s
	}
	s := strconv.FormatFloat(f, 'x', 13, 64)
	p := strings.IndexByte(s, 'p')
	exp, _ := strconv.Atoi(s[p+1:])
	if exp < 0 {
		return s[:p] + "p" + strconv.Itoa(exp)
	}
	return s[:p] + "p+" + strconv.Itoa(exp)
}
