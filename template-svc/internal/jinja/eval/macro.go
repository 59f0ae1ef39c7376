package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// macroDef is a compiled macro or call body.
type macroDef struct {
	name     string // "" for a caller
	params   []string
	slots    []int
	defaults []exprFunc // nil where a parameter has none
	absent   []value.Value
	caller   int // slots of the special names, -1 if the body does not read them
	kwargs   int
	varargs  int
	explicit bool // caller is a parameter
	enter    func(f *frame)
	body     stmtFunc
	fn       *function
	node     syntax.Node
	cost     int // of the defaults
}

// macro is a macro with the record it was defined in.
type macro struct {
	def *macroDef
	up  *frame
}

// TypeName is Macro.
func (m *macro) TypeName() string { return "Macro" }

// Module is jinja2.runtime.
func (m *macro) Module() string { return "jinja2.runtime" }

// AppendRepr prints "<Macro 'name'>".
func (m *macro) AppendRepr(p *value.Printer) error {
	if m.def.name == "" {
		return p.Write("<Macro anonymous>")
	}
	return p.Write("<Macro " + value.ReprString(m.def.name) + ">")
}

// Attr gives the attributes that Jinja2 documents for macros.
func (m *macro) Attr(name string) (value.Value, bool) {
	switch name {
	case "name":
		if m.def.name == "" {
			return value.None, true
		}
		return value.Str(m.def.name), true
	case "arguments":
		cells := make([]value.Value, len(m.def.params))
		for i, p := range m.def.params {
			cells[i] = value.Str(p)
		}
		return value.Tuple(cells), true
	case "catch_kwargs":
		return value.Bool(m.def.kwargs >= 0), true
	case "catch_varargs":
		return value.Bool(m.def.varargs >= 0), true
	case "caller":
		return value.Bool(m.def.caller >= 0), true
	case "explicit_caller":
		return value.Bool(m.def.explicit), true
	}
	return value.Value{}, false
}

// macroBody compiles parameters and body.
func (c *compiler) macroBody(n syntax.Node, name string, sig *syntax.Signature, body []syntax.Node, s *scope) *macroDef {
	inner := s.function()
	d := &macroDef{name: name, caller: -1, kwargs: -1, varargs: -1, fn: inner.sym.fn, node: n}
	special := reads(body, "caller", "kwargs", "varargs")
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

var noCaller = value.Undefined(&value.Undef{Name: "caller", Hint: "No caller defined"})

// call runs the macro and gives its text.
func (m *macro) call(r *run, a *args) (value.Value, error) {
	start := len(r.out)
	err := m.print(r, a)
	text := r.cut(start)
	return value.Str(text).WithMarkup(r.autoescape), err
}

// print runs the macro, its text going to the output.
func (m *macro) print(r *run, a *args) error {
	if err := r.m.Enter(); err != nil {
		return err
	}
	defer r.m.Leave()
	d := m.def
	f, err := r.newFrame(d.fn, m.up)
	if err != nil {
		return err
	}
	if err = d.bind(f, a); err == nil {
		do(d.enter, f)
		err = d.fill(f)
	}
	if err == nil {
		if err = r.m.Work(d.cost); err == nil {
			_, err = d.body(f)
		}
	}
	r.endFrame(d.fn, f)
	return err
}

// bind puts arguments into the parameters' slots.
func (d *macroDef) bind(f *frame, a *args) error {
	n := min(len(a.pos), len(d.params))
	for i := range n {
		f.slots[d.slots[i]] = a.pos[i]
	}
	used := 0
	kw := a.kw
	foundCaller := n == len(d.params) && d.explicit
	for i := n; i < len(d.params); i++ {
		if d.params[i] == "caller" {
			foundCaller = true
		}
		v, rest, ok := takeKeyword(kw, d.params[i])
		kw = rest
		if ok {
			used++
			f.slots[d.slots[i]] = v
		} else {
			f.slots[d.slots[i]] = value.Value{}
		}
	}
	if d.caller >= 0 && !foundCaller {
		v, rest, ok := takeKeyword(kw, "caller")
		kw = rest
		if !ok || v.IsNone() {
			v = noCaller
		}
		f.slots[d.caller] = v
	}
	return d.extras(f, a, kw)
}

// extras binds kwargs and varargs or refuses what is left.
func (d *macroDef) extras(f *frame, a *args, kw []keyword) error {
	if d.kwargs >= 0 {
		dict := value.NewDict(len(kw))
		for _, k := range kw {
			dict.SetStr(k.name, k.value)
		}
		f.slots[d.kwargs] = value.OfDict(dict)
	} else if len(kw) > 0 {
		for _, k := range kw {
			if k.name == "caller" {
				return pyerr.Newf(pyerr.Type, "macro %s was invoked with two values for the special caller argument. "+
					"This is most likely a bug.", d.shown())
			}
		}
		return pyerr.Newf(pyerr.Type, "macro %s takes no keyword argument %s", d.shown(), value.ReprString(kw[0].name))
	}
	if d.varargs >= 0 {
		var rest []value.Value
		if len(a.pos) > len(d.params) {
			rest = append(rest, a.pos[len(d.params):]...)
		}
		f.slots[d.varargs] = value.Tuple(rest)
	} else if len(a.pos) > len(d.params) {
		return pyerr.Newf(pyerr.Type, "macro %s takes not more than %d argument(s)", d.shown(), len(d.params))
	}
	return nil
}

// shown is the macro's name in messages.
func (d *macroDef) shown() string {
	if d.name == "" {
		return "None"
	}
	return value.ReprString(d.name)
}

// takeKeyword takes the keyword name out of kw, which is not changed.
func takeKeyword(kw []keyword, name string) (v value.Value, rest []keyword, ok bool) {
	for i := range kw {
		if kw[i].name == name {
			rest = append(append(rest, kw[:i]...), kw[i+1:]...)
			return kw[i].value, rest, true
		}
	}
	return value.Value{}, kw, false
}

// fill computes the defaults of parameters that got no argument, in order.
func (d *macroDef) fill(f *frame) error {
	for i, slot := range d.slots {
		if !isMissing(f.slots[slot]) {
			continue
		}
		if d.defaults[i] == nil {
			f.slots[slot] = d.absent[i]
			continue
		}
		v, err := d.defaults[i](f)
		if err != nil {
			return at(err, d.node)
		}
		f.slots[slot] = v
	}
	return nil
}
