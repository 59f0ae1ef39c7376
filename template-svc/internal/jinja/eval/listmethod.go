package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Methods that would change a list are hidden by the sandbox; what is left
// counts and finds.

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
	if a.at(1).IsNone() || a.at(2).IsNone() {
		return self, typeError("slice indices must be integers or have an __index__ method")
	}
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
