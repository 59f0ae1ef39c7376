package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Item access asks for the item first and for an attribute of that name
// second. What is absent, out of range or of a wrong key type is undefined,
// never an error.

// subscript is Python's v[key] with failed look-ups as ok false; only an
// undefined v is an error.
func subscript(v, key value.Value) (item value.Value, ok bool, err error) {
	switch v.Kind() {
	case value.KindUndefined:
		return value.Value{}, false, value.RaiseUndefined(v)
	case value.KindDict:
		if key.IsStr() {
			item, ok = v.AsDict().GetStr(key.AsStr())
			return item, ok, nil
		}
		item, ok, err = v.AsDict().Get(key)
		if _, limited := err.(*pyerr.Error); limited {
			err = nil // an unhashable key is one that is not there
		}
		return item, ok, err
	case value.KindList, value.KindTuple:
		if i, ok := index(key, len(v.Cells())); ok {
			return v.Cells()[i], true, nil
		}
	case value.KindBytes:
		if i, ok := index(key, len(v.AsStr())); ok {
			return value.Int(int64(v.AsStr()[i])), true, nil
		}
	case value.KindStr:
		if item, ok := charAt(v, key); ok {
			return item, true, nil
		}
	case value.KindObject:
		if o, is := v.AsObject().(value.Indexed); is {
			item, ok = o.Item(key)
			return item, ok, nil
		}
	}
	return value.Value{}, false, nil
}

// index turns a key into a place of a sequence of n members.
func index(key value.Value, n int) (int, bool) {
	if k := key.Kind(); k != value.KindInt && k != value.KindBool {
		return 0, false
	}
	i := key.AsInt()
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n)
}

// charAt gives a code point of a string by index; Python counts code
// points, and from the end for a negative index.
func charAt(v, key value.Value) (value.Value, bool) {
	if k := key.Kind(); k != value.KindInt && k != value.KindBool {
		return value.Value{}, false
	}
	s, i := v.AsStr(), key.AsInt()
	if i < 0 {
		i += int64(value.RuneCount(s))
	}
	if i < 0 || i >= int64(len(s)) {
		return value.Value{}, false
	}
	c, ok := value.RuneAt(s, int(i))
	return value.Str(c).WithMarkup(v.IsMarkup()), ok
}

// getItem is x[key]: the item first, then the attribute.
func getItem(r *run, v, key value.Value) (value.Value, error) {
	if err := r.m.Scan(len(v.Text()) + len(key.Text())); err != nil {
		return v, err
	}
	if err := value.ChargeKey(&r.m, key); err != nil {
		return v, err
	}
	if item, ok, err := subscript(v, key); ok || err != nil {
		return item, err
	}
	if key.IsStr() {
		if attr, ok, err := attribute(v, key.AsStr()); ok || err != nil {
			return attr, err
		}
		return noAttr(v, key.AsStr()), nil
	}
	shown, err := value.ReprOf(&r.m, key)
	if err != nil {
		return v, err
	}
	return value.Undefined(&value.Undef{Of: v.ObjectText(), Key: shown}), nil
}

// getitem compiles x[key]. A slice, a literal text as key and a list with
// an int each have a shorter way than the general one.
func (c *compiler) getitem(n *syntax.Getitem, s *scope) exprFunc {
	if sl, ok := n.Arg.(*syntax.Slice); ok {
		return c.slice(n, sl, s)
	}
	obj := c.expr(n.Node, s)
	if k, ok := n.Arg.(*syntax.Const); ok && k.Value.IsStr() {
		return c.textItem(n, obj, k.Value)
	}
	key := c.expr(n.Arg, s)
	return func(f *frame) (value.Value, error) {
		v, err := obj(f)
		if err != nil {
			return v, err
		}
		k, err := key(f)
		if err != nil {
			return v, err
		}
		if k.Kind() == value.KindInt && v.Kind() == value.KindList {
			if i, ok := index(k, len(v.Cells())); ok {
				return v.Cells()[i], nil
			}
		}
		v, err = getItem(f.r, v, k)
		return v, at(err, n)
	}
}

// textItem is x['name'].
func (c *compiler) textItem(n *syntax.Getitem, obj exprFunc, key value.Value) exprFunc {
	name := key.AsStr()
	absent := value.Undefined(&value.Undef{Of: "dict object", Name: name})
	isAttr := isDictAttr(name) || strings.HasPrefix(name, "__")
	return func(f *frame) (value.Value, error) {
		v, err := obj(f)
		if err != nil {
			return v, err
		}
		if v.Kind() == value.KindDict {
			if item, ok := v.AsDict().GetStr(name); ok {
				return item, nil
			}
			if !isAttr {
				return absent, nil
			}
		}
		v, err = getItem(f.r, v, key)
		return v, at(err, n)
	}
}
