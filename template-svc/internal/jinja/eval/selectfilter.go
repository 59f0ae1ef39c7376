package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// select and reject, with or without an attribute, pass members through a
// test named at run time.

// selectFilter is select, reject and their forms for attributes.
func selectFilter(name string, byAttr bool) nativeFunc {
	sig := &signature{name: "sync_do_" + name, required: 1, hidden: 1, params: []string{"value"}}
	want := strings.HasPrefix(name, "select")
	return func(r *run, a *args) (value.Value, error) {
		if len(a.pos) == 0 {
			_, err := sig.bind(a)
			return value.Value{}, err
		}
		a = a.keep()
		var path attrPath
		var pass func(v value.Value) (bool, error)
		start := func() error {
			rest := a.pos[1:]
			if byAttr {
				if len(rest) == 0 {
					return pyerr.New(pyerr.FilterArgument, "Missing parameter for attribute name")
				}
				path = newAttrPath(rest[0])
				rest = rest[1:]
			}
			pass = selectTest(r, rest, a.kw)
			return nil
		}
		return r.lazily(a.pos[0], true, start, func(v value.Value) (value.Value, bool, error) {
			x, err := path.get(r, v)
			if err != nil {
				return v, false, err
			}
			ok, err := pass(x)
			return v, ok == want, err
		}), nil
	}
}

// selectTest is the test that select applies: truth if none is named.
func selectTest(r *run, rest []value.Value, kw []keyword) func(v value.Value) (bool, error) {
	if len(rest) == 0 {
		return func(v value.Value) (bool, error) { return v.Truth(), nil }
	}
	var fn testFunc
	if rest[0].IsStr() {
		fn = testOf(rest[0].AsStr())
	}
	call := args{pos: append([]value.Value(nil), rest...), kw: kw}
	return func(v value.Value) (bool, error) {
		if fn == nil {
			return false, errNoCallable(r, "test", rest[0])
		}
		call.pos[0] = v
		return fn(r, &call)
	}
}
