package value

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// "in" asks a string for a part, a dict for a key, and walks over anything
// else.

// Contains is Python's item in container.
func Contains(m *limit.Meter, item, container Value) (bool, error) {
	switch container.k {
	case KindStr:
		if item.k != KindStr {
			return false, pyerr.Newf(pyerr.Type,
				"'in <string>' requires string as left operand, not %s", item.TypeName())
		}
		return strings.Contains(container.AsStr(), item.AsStr()), m.Scan(int(container.n))
	case KindDict:
		if err := ChargeKey(m, item); err != nil {
			return false, err
		}
		_, ok, err := container.AsDict().Get(item)
		return ok, err
	case KindList, KindTuple:
		return containsCell(m, item, container.Cells())
	case KindUndefined:
		return false, nil
	case KindBytes:
		return containsByte(m, item, container)
	case KindObject:
		if c, ok := container.AsObject().(Container); ok {
			return c.Contains(m, item)
		}
	}
	it, err := container.Iter()
	if err != nil {
		return false, pyerr.Newf(pyerr.Type, "argument of type '%s' is not iterable", container.TypeName())
	}
	for {
		v, ok, err := it.Next()
		if !ok || err != nil {
			return false, err
		}
		if err := m.Step(); err != nil {
			return false, err
		}
		if same, err := Equal(m, item, v); same || err != nil {
			return same, err
		}
	}
}

// containsCell reports whether a member equals item or is the very same.
func containsCell(m *limit.Meter, item Value, cells []Value) (bool, error) {
	if err := m.Work(len(cells)); err != nil {
		return false, err
	}
	for _, c := range cells {
		if same, err := Equal(m, item, c); same || err != nil || c.Same(item) {
			return err == nil, err
		}
	}
	return false, nil
}
