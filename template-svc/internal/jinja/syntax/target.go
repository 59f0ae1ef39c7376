package syntax

// Targets are parsed as expressions and then checked, since a tuple in
// brackets may be either.

// nameTarget reads a single name to bind.
func (p *parser) nameTarget(ctx Access) *Name {
	t := p.expect(kName)
	if isConstName(t.text) {
		p.fail(t.off, "can't assign to 'name'")
	}
	return &Name{Pos: p.pos(t), Name: t.text, Ctx: ctx}
}

// isConstName reports the names that are constants.
func isConstName(name string) bool {
	switch name {
	case "true", "false", "none", "True", "False", "None":
		return true
	}
	return false
}

// target reads what a for, set or with binds.
func (p *parser) target(how tupleOf) Expr {
	off := p.cur().off
	how.primary = true
	e := p.tuple(how)
	setAccess(e, Store)
	if p.err == nil && !canAssign(e) {
		p.fail(off, "can't assign to '%s'", typeWord(e))
	}
	return e
}

// setAccess makes every name of a target one that is bound.
func setAccess(e Expr, ctx Access) {
	Walk(e, func(n Node) bool {
		if name, ok := n.(*Name); ok {
			name.Ctx = ctx
		}
		return true
	})
}

// canAssign reports whether an expression is a target.
func canAssign(e Expr) bool {
	switch e := e.(type) {
	case *Name:
		return !isConstName(e.Name)
	case *NSRef:
		return true
	case *Tuple:
		for _, i := range e.Items {
			if !canAssign(i) {
				return false
			}
		}
		return true
	}
	return false
}

// typeWord names an expression in the refusal to assign to it.
func typeWord(e Expr) string {
	switch e := e.(type) {
	case *Const:
		return "const"
	case *Tuple:
		return "tuple"
	case *List:
		return "list"
	case *Dict:
		return "dict"
	case *Cond:
		return "condexpr"
	case *Filter:
		return "filter"
	case *Test:
		return "test"
	case *Call:
		return "call"
	case *Getattr:
		return "getattr"
	case *Getitem:
		return "getitem"
	case *Concat:
		return "concat"
	case *Compare:
		return "compare"
	case *Binary:
		return map[string]string{
			"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "mod", "**": "pow",
			"and": "and", "or": "or",
		}[e.Op]
	case *Unary:
		return map[string]string{"not": "not", "-": "neg", "+": "pos"}[e.Op]
	}
	return "expr"
}
