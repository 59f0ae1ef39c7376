package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Methods that would change a dict are hidden by the sandbox; what is left
// reads.

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
