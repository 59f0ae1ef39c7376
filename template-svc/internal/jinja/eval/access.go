package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Attribute access follows the sandboxed environment: Python's getattr
// first, then the item of that name, then an undefined value that remembers
// both. The names of dict methods therefore hide items of the same name,
// and everything that starts with two underscores is refused.

// getattr compiles x.name: the Python attribute first, then the item.
func (c *compiler) getattr(n *syntax.Getattr, s *scope) exprFunc {
	obj := c.expr(n.Node, s)
	name := n.Attr
	if name == "format" || isDictAttr(name) || strings.HasPrefix(name, "__") {
		return func(f *frame) (value.Value, error) {
			v, err := obj(f)
			if err == nil {
				v, err = getAttr(v, name)
			}
			return v, at(err, n)
		}
	}
	absent := value.Undefined(&value.Undef{Of: "dict object", Name: name})
	return func(f *frame) (value.Value, error) {
		v, err := obj(f)
		if err != nil {
			return v, err
		}
		switch v.Kind() {
		case value.KindDict:
			if item, ok := v.AsDict().GetStr(name); ok {
				return item, nil
			}
			return absent, nil
		case value.KindObject:
			switch o := v.AsObject().(type) {
			case *loop:
				if item, ok, err := o.attr(name); ok || err != nil {
					return item, at(err, n)
				}
			case *namespace:
				if item, ok := o.attrs.GetStr(name); ok && name[0] != '_' {
					return item, nil
				}
			}
		}
		v, err = getAttr(v, name)
		return v, at(err, n)
	}
}

// noAttr is the undefined value of a name that v lacks; using it raises
// UndefinedError with both in the message.
func noAttr(v value.Value, name string) value.Value {
	return value.Undefined(&value.Undef{Of: v.ObjectText(), Name: name})
}

// unsafeAttr is what the sandbox gives for an attribute it hides: undefined,
// raising SecurityError when used.
func unsafeAttr(v value.Value, name string) value.Value {
	return value.Undefined(&value.Undef{
		Exc: pyerr.Security, Name: name,
		Hint: "access to attribute " + value.ReprString(name) + " of " + value.ReprString(v.TypeName()) +
			" object is unsafe.",
	})
}

// attribute is Python's getattr within the sandbox; ok is false if there is no
// such attribute.
func attribute(v value.Value, name string) (attr value.Value, ok bool, err error) {
	if strings.HasPrefix(name, "__") {
		if isDunder(v, name) {
			return unsafeAttr(v, name), true, nil
		}
	}
	if v.IsUndefined() {
		if strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") {
			return value.Value{}, false, nil
		}
		return value.Value{}, false, value.RaiseUndefined(v)
	}
	if fn := methodOf(v, name); fn != nil {
		return boundMethod(v, name, fn), true, nil
	}
	switch v.Kind() {
	case value.KindList:
		if isListMutator(name) {
			return unsafeAttr(v, name), true, nil
		}
	case value.KindDict:
		if isDictMutator(name) {
			return unsafeAttr(v, name), true, nil
		}
	case value.KindBool, value.KindInt, value.KindBig, value.KindFloat:
		attr, ok = numberAttr(v, name)
		return attr, ok, nil
	case value.KindObject:
		return objectAttr(v, name)
	}
	return value.Value{}, false, nil
}

// objectAttr looks name up among the attributes of an engine object, which
// may hide some and compute others.
func objectAttr(v value.Value, name string) (value.Value, bool, error) {
	switch o := v.AsObject().(type) {
	case *loop:
		return o.attr(name)
	case value.Attributed:
		attr, ok := o.Attr(name)
		if ok && strings.HasPrefix(name, "_") {
			return unsafeAttr(v, name), true, nil
		}
		return attr, ok, nil
	case *value.Generator:
		switch name {
		case "gi_frame", "gi_code":
			return unsafeAttr(v, name), true, nil
		}
	}
	return value.Value{}, false, nil
}

// getAttr is x.name of the sandbox: the Python attribute, then the item of
// that key, then undefined. Only an undefined x and the attributes of a
// loop can fail.
func getAttr(v value.Value, name string) (value.Value, error) {
	if attr, ok, err := attribute(v, name); ok || err != nil {
		return attr, err
	}
	if item, ok, err := subscript(v, value.Str(name)); ok || err != nil {
		return item, err
	}
	return noAttr(v, name), nil
}
