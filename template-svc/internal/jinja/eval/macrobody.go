package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Bodies of macros, call blocks and generation tags are compiled alike.
// Which of caller, varargs and kwargs a body accepts depends on which it
// reads before binding them.

// macroBody compiles parameters and body.
func (c *compiler) macroBody(n syntax.Node, name string, sig *syntax.Signature, body []syntax.Node, s *scope) *macroDef {
	inner := s.function()
	d := &macroDef{name: name, caller: -1, kwargs: -1, varargs: -1, fn: inner.sym.fn, node: n}
	special := reads(body, "caller", "kwargs", "varargs")
	c.checkParameters(n, sig.Params, inner.sym.level)
	for i, p := range sig.Params {
		inner.sym.param(p.Name)
		switch p.Name {
		case "caller":
			d.explicit = true
			if special["caller"] && i < len(sig.Params)-len(sig.Defaults) {
				c.fail(n, `When defining macros or call blocks the special "caller" argument must be omitted `+
					`or be given a default.`)
			}
		case "kwargs", "varargs":
			delete(special, p.Name)
		}
		r, _ := inner.sym.find(p.Name)
		d.params = append(d.params, p.Name)
		d.slots = append(d.slots, r.slot)
		d.absent = append(d.absent, value.Undefined(&value.Undef{
			Name: p.Name, Hint: "parameter " + value.ReprString(p.Name) + " was not provided",
		}))
	}
	for _, e := range sig.Defaults {
		inner.sym.visit(e)
	}
	d.special(special, inner.sym)
	inner.sym.visitAll(body)
	d.enter = c.enter(inner)
	d.defaults = make([]exprFunc, len(d.params))
	first := len(d.params) - len(sig.Defaults)
	for i, e := range sig.Defaults {
		d.defaults[first+i] = c.expr(e, inner)
	}
	d.body = c.body(body, inner)
	d.cost = 1
	for _, e := range sig.Defaults {
		d.cost += cost(e)
	}
	return d
}

// special gives slots to caller, kwargs and varargs as far as the body
// reads them: only then a macro accepts what they stand for.
func (d *macroDef) special(names map[string]bool, sym *symbols) {
	if names["caller"] {
		if d.explicit {
			r, _ := sym.find("caller")
			d.caller = r.slot
		} else {
			d.caller = sym.param("caller").slot
		}
	}
	if names["kwargs"] {
		d.kwargs = sym.param("kwargs").slot
	}
	if names["varargs"] {
		d.varargs = sym.param("varargs").slot
	}
}

// macroStmt compiles a macro tag: it binds a macro that holds on to the
// record it was defined in, so later bindings there are seen.
func (c *compiler) macroStmt(n *syntax.Macro, s *scope) stmtFunc {
	def := c.macroBody(n, n.Name, &n.Signature, n.Body, s)
	set := c.setter(n.Name, s)
	return func(f *frame) (control, error) {
		set(f, value.OfObject(&macro{def: def, up: f}))
		return goOn, f.r.m.Bytes(objectBytes)
	}
}

// callBlock compiles a call tag: the body becomes a macro that is passed as
// caller.
func (c *compiler) callBlock(n *syntax.CallBlock, s *scope) stmtFunc {
	def := c.macroBody(n, "", &n.Signature, n.Body, s)
	call := c.call(n.Call, s, true)
	c.checkKeywords(n, n.Call.Args.Kw, true)
	print := c.printer()
	return func(f *frame) (control, error) {
		caller := value.OfObject(&macro{def: def, up: f})
		v, err := call(f, caller)
		if err == nil {
			err = print(f, v)
		}
		if err != nil {
			return goOn, at(err, n)
		}
		return goOn, nil
	}
}

// generation compiles the body of a generation tag as a caller that is called
// at once.
func (c *compiler) generation(n *syntax.Generation, s *scope) stmtFunc {
	def := c.macroBody(n, "", &syntax.Signature{}, n.Body, s)
	return func(f *frame) (control, error) {
		m := macro{def: def, up: f}
		return goOn, at(m.print(f.r, &args{}), n)
	}
}
