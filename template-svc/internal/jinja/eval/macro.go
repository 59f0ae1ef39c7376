package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// A macro is its compiled body with the record it was defined in. Its text
// goes to the end of the output; a call whose result is printed leaves it
// there.

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
