package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// What built-ins make is charged before it is made, in bytes, and what they
// walk over in steps. The constants are sizes on a 64-bit machine, rounded
// up.

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
