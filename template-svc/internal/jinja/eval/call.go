package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Whatever can be called is a callable: native functions, macros, loops,
// joiners. Calls of methods of str, dict and list, which chat templates
// make all the time, skip the bound method that Python would create.

// nativeFunc is a callable of the engine.
type nativeFunc func(r *run, a *args) (value.Value, error)

// methodFunc is a method of a built-in type.
type methodFunc func(r *run, self value.Value, a *args) (value.Value, error)

// native is a function as a value.
type native struct {
	typeName string // "function", "type", "method", "builtin_function_or_method"
	name     string
	fn       nativeFunc
}

// TypeName is the Python type of the callable.
func (n *native) TypeName() string { return n.typeName }

// AppendRepr prints the callable as Python does, without its address.
func (n *native) AppendRepr(p *value.Printer) error {
	if n.typeName == "type" {
		return p.Write("<class '" + n.name + "'>")
	}
	return p.Write("<" + n.typeName + " " + n.name + ">")
}

// function1 wraps a native function as a value of the given Python type.
func function1(typeName, name string, fn nativeFunc) value.Value {
	return value.OfObject(&native{typeName: typeName, name: name, fn: fn})
}

// method wraps a method of an engine object.
func method(name string, fn nativeFunc) value.Value { return function1("method", name, fn) }

// boundMethod wraps a method of a built-in type with its receiver.
func boundMethod(self value.Value, name string, fn methodFunc) value.Value {
	return function1("builtin_function_or_method", name, func(r *run, a *args) (value.Value, error) {
		return fn(r, self, a)
	})
}

// callable is an object that can be called.
type callable interface {
	call(r *run, a *args) (value.Value, error)
}

// call runs the function; the arguments are the caller's and must be copied
// to be kept.
func (n *native) call(r *run, a *args) (value.Value, error) { return n.fn(r, a) }

// call calls a value.
func (r *run) call(fn value.Value, a *args) (value.Value, error) {
	if err := r.m.Step(); err != nil {
		return value.Value{}, err
	}
	if fn.IsUndefined() {
		return value.Value{}, value.RaiseUndefined(fn)
	}
	if c, ok := fn.AsObject().(callable); ok {
		return c.call(r, a)
	}
	return value.Value{}, pyerr.Newf(pyerr.Type, "'%s' object is not callable", fn.TypeName())
}

// call compiles a call; withCaller passes the second argument of the result
// as keyword caller.
func (c *compiler) call(n *syntax.Call, s *scope, withCaller bool) func(f *frame, caller value.Value) (value.Value, error) {
	if g, ok := n.Func.(*syntax.Getattr); ok && !withCaller {
		if m := newMethodCall(c, n, g, s); m != nil {
			return func(f *frame, _ value.Value) (value.Value, error) { return m.run(f) }
		}
	}
	callee := c.expr(n.Func, s)
	list := c.args(&n.Args, s)
	return func(f *frame, caller value.Value) (value.Value, error) {
		fn, err := callee(f)
		if err != nil {
			return fn, err
		}
		a := f.r.newArgs()
		var v value.Value
		base := len(f.r.stack)
		if err = list.eval(f, base, a); err == nil {
			if withCaller {
				a.kw = append(a.kw, keyword{"caller", caller})
			}
			v, err = f.r.call(fn, a)
		}
		f.r.endArgs(a, base)
		return v, at(err, n)
	}
}

// methodCall is x.name(...) where name may be a method of str, dict or list:
// the method is called without being made a value first.
type methodCall struct {
	node   *syntax.Call
	attr   *syntax.Getattr
	object exprFunc
	args   *argList
	ofStr  methodFunc
	ofDict methodFunc
	ofList methodFunc
}

// newMethodCall compiles x.name(...) if name is a method of str, dict or
// list; nil leaves the call to the general way.
func newMethodCall(c *compiler, n *syntax.Call, g *syntax.Getattr, s *scope) *methodCall {
	m := &methodCall{
		node: n, attr: g,
		ofStr: strMethods(g.Attr), ofDict: dictMethods(g.Attr), ofList: listMethods(g.Attr),
	}
	if m.ofStr == nil && m.ofDict == nil && m.ofList == nil {
		return nil
	}
	m.object = c.expr(g.Node, s)
	m.args = c.args(&n.Args, s)
	return m
}

// run computes the receiver, then the arguments, then calls; what a
// receiver of another type calls name is looked up before the arguments, as
// in Python.
func (m *methodCall) run(f *frame) (value.Value, error) {
	self, err := m.object(f)
	if err != nil {
		return self, err
	}
	var fn methodFunc
	switch self.Kind() {
	case value.KindStr:
		fn = m.ofStr
	case value.KindDict:
		fn = m.ofDict
	case value.KindList:
		fn = m.ofList
	}
	var bound value.Value
	if fn == nil {
		if bound, err = getAttr(self, m.attr.Attr); err != nil {
			return self, at(err, m.node)
		}
	}
	a := f.r.newArgs()
	base := len(f.r.stack)
	v := value.Value{}
	if err = m.args.eval(f, base, a); err == nil {
		if fn == nil {
			v, err = f.r.call(bound, a)
		} else if err = f.r.m.Step(); err == nil {
			v, err = fn(f.r, self, a)
		}
	}
	f.r.endArgs(a, base)
	return v, at(err, m.node)
}
