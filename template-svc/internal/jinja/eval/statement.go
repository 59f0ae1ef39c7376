package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// branch is one arm of an if.
type branch struct {
	test func(f *frame) (bool, error)
	body stmtFunc
	cost int // of the test of an elif
}

// ifStmt compiles an if with its elifs. All branches share the frame
// around.
func (c *compiler) ifStmt(n *syntax.If, s *scope) stmtFunc {
	arms := []branch{{c.cond(n.Test, s), c.body(n.Body, s), 0}}
	for _, e := range n.Elif {
		arms = append(arms, branch{c.cond(e.Test, s), c.body(e.Body, s), 1 + cost(e.Test)})
	}
	var other stmtFunc
	if n.Else != nil {
		other = c.body(n.Else, s)
	}
	return func(f *frame) (control, error) {
		for i := range arms {
			if arms[i].cost > 0 {
				if err := f.r.m.Work(arms[i].cost); err != nil {
					return goOn, at(err, n)
				}
			}
			ok, err := arms[i].test(f)
			if err != nil {
				return goOn, at(err, n)
			}
			if ok {
				return arms[i].body(f)
			}
		}
		if other != nil {
			return other(f)
		}
		return goOn, nil
	}
}

// binder compiles the binding of a target to a value.
func (c *compiler) binder(target syntax.Expr, s *scope) func(f *frame, v value.Value) error {
	switch t := target.(type) {
	case *syntax.Name:
		set := c.setter(t.Name, s)
		return func(f *frame, v value.Value) error {
			set(f, v)
			return nil
		}
	case *syntax.NSRef:
		get := c.name(&syntax.Name{Pos: t.Pos, Name: t.Name}, s)
		return func(f *frame, v value.Value) error {
			ns, err := get(f)
			if err != nil {
				return err
			}
			return setAttr(ns, t.Attr, v)
		}
	case *syntax.Tuple:
		return c.unpack(t, s)
	}
	c.fail(target, "can't assign to expression")
	return nil
}

// setAttr sets an attribute of a namespace.
func setAttr(ns value.Value, attr string, v value.Value) error {
	o, ok := ns.AsObject().(*namespace)
	if !ok {
		return errNoNamespace()
	}
	o.attrs.SetStr(attr, v)
	return nil
}

// errNoNamespace is the refusal of set x.y where x is no namespace.
func errNoNamespace() error {
	return pyerr.New(pyerr.TemplateRuntime, "cannot assign attribute on non-namespace object")
}

// unpack binds the members of a tuple target.
func (c *compiler) unpack(t *syntax.Tuple, s *scope) func(f *frame, v value.Value) error {
	parts := make([]func(*frame, value.Value) error, len(t.Items))
	for i, e := range t.Items {
		parts[i] = c.binder(e, s)
	}
	return func(f *frame, v value.Value) error {
		cells, err := unpackCells(v, len(parts))
		if err != nil {
			return err
		}
		for i, bind := range parts {
			if err := bind(f, cells[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// unpackCells gives exactly n members of v: ValueError for more or fewer.
func unpackCells(v value.Value, n int) ([]value.Value, error) {
	var cells []value.Value
	more := false
	if k := v.Kind(); k == value.KindTuple || k == value.KindList {
		cells = v.Cells()
		more = len(cells) > n
	} else {
		it, err := v.Iter()
		if err != nil {
			return nil, pyerr.Newf(pyerr.Type, "cannot unpack non-iterable %s object", v.TypeName())
		}
		for !more {
			x, ok, err := it.Next()
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			more = len(cells) == n
			cells = append(cells, x)
		}
	}
	if more {
		return nil, pyerr.Newf(pyerr.Value, "too many values to unpack (expected %d)", n)
	}
	if len(cells) < n {
		return nil, pyerr.Newf(pyerr.Value, "not enough values to unpack (expected %d, got %d)", n, len(cells))
	}
	return cells, nil
}

// namespaces gives a check that every ns.attr of a target is on a namespace,
// which Jinja2 makes before it computes the value.
func (c *compiler) namespaces(target syntax.Expr, s *scope) func(f *frame) error {
	var gets []exprFunc
	syntax.Walk(target, func(n syntax.Node) bool {
		if t, ok := n.(*syntax.NSRef); ok {
			gets = append(gets, c.name(&syntax.Name{Pos: t.Pos, Name: t.Name}, s))
		}
		return true
	})
	if gets == nil {
		return nil
	}
	return func(f *frame) error {
		for _, get := range gets {
			v, err := get(f)
			if err != nil {
				return err
			}
			if _, ok := v.AsObject().(*namespace); !ok {
				return errNoNamespace()
			}
		}
		return nil
	}
}

// set compiles set target = value; a single name, the usual case, needs no
// checks.
func (c *compiler) set(n *syntax.Set, s *scope) stmtFunc {
	expr := c.expr(n.Value, s)
	if name, ok := n.Target.(*syntax.Name); ok {
		set := c.setter(name.Name, s)
		return func(f *frame) (control, error) {
			v, err := expr(f)
			if err != nil {
				return goOn, at(err, n)
			}
			set(f, v)
			return goOn, nil
		}
	}
	check := c.namespaces(n.Target, s)
	bind := c.binder(n.Target, s)
	return func(f *frame) (control, error) {
		if check != nil {
			if err := check(f); err != nil {
				return goOn, at(err, n)
			}
		}
		v, err := expr(f)
		if err == nil {
			err = bind(f, v)
		}
		if err != nil {
			return goOn, at(err, n)
		}
		return goOn, nil
	}
}

// captured compiles a body whose text becomes a value.
func (c *compiler) captured(nodes []syntax.Node, s *scope) (enter, leave func(*frame), body stmtFunc) {
	s.sym.visitAll(nodes)
	enter = c.enter(s)
	body = c.body(nodes, s)
	return enter, c.leave(s), body
}

// setBlock compiles set target ... endset: the body's text, taken off the
// output, through the filters.
func (c *compiler) setBlock(n *syntax.SetBlock, s *scope) stmtFunc {
	inner := s.inner()
	enter, leave, body := c.captured(n.Body, inner)
	var filter func(f *frame, text value.Value) (value.Value, error)
	if n.Filter != nil {
		filter = c.textFilter(n.Filter, inner)
	}
	bind := c.binder(n.Target, s)
	return func(f *frame) (control, error) {
		do(enter, f)
		start := len(f.r.out)
		ctl, err := body(f)
		v := value.Str(f.r.cut(start)).WithMarkup(f.r.autoescape)
		if ctl != goOn || err != nil {
			return ctl, err
		}
		if filter != nil {
			if v, err = filter(f, v); err != nil {
				return goOn, at(err, n)
			}
			if f.r.autoescape {
				if v, err = toMarkup(f.r, v); err != nil {
					return goOn, at(err, n)
				}
			}
		}
		if err := bind(f, v); err != nil {
			return goOn, at(err, n)
		}
		do(leave, f)
		return goOn, nil
	}
}

// filterBlock compiles filter ... endfilter: the body's text, taken off the
// output, printed through the filters.
func (c *compiler) filterBlock(n *syntax.FilterBlock, s *scope) stmtFunc {
	inner := s.inner()
	inner.sym.visitAll(n.Body)
	inner.sym.visit(n.Filter)
	enter := c.enter(inner)
	body := c.body(n.Body, inner)
	filter := c.textFilter(n.Filter, inner)
	leave := c.leave(inner)
	print := c.printer()
	return func(f *frame) (control, error) {
		do(enter, f)
		start := len(f.r.out)
		ctl, err := body(f)
		text := f.r.cut(start)
		if ctl != goOn || err != nil {
			return ctl, err
		}
		v, err := filter(f, value.Str(text).WithMarkup(f.r.autoescape))
		if err == nil {
			err = print(f, v)
		}
		if err != nil {
			return goOn, at(err, n)
		}
		do(leave, f)
		return goOn, nil
	}
}

// with compiles with ... endwith. The values see the frame around, not one
// another.
func (c *compiler) with(n *syntax.With, s *scope) stmtFunc {
	inner := s.inner()
	for _, t := range n.Targets {
		inner.sym.visit(t)
	}
	inner.sym.visitAll(n.Body)
	enter := c.enter(inner)
	binds := make([]func(*frame, value.Value) error, len(n.Targets))
	exprs := make([]exprFunc, len(n.Values))
	for i := range n.Targets {
		binds[i] = c.binder(n.Targets[i], inner)
		exprs[i] = c.expr(n.Values[i], s)
	}
	body := c.body(n.Body, inner)
	leave := c.leave(inner)
	return func(f *frame) (control, error) {
		do(enter, f)
		for i := range binds {
			v, err := exprs[i](f)
			if err == nil {
				err = binds[i](f, v)
			}
			if err != nil {
				return goOn, at(err, n)
			}
		}
		ctl, err := body(f)
		do(leave, f)
		return ctl, err
	}
}

// autoescape compiles autoescape ... endautoescape. Only code inside it
// pays for the question whether to escape.
func (c *compiler) autoescape(n *syntax.Autoescape, s *scope) stmtFunc {
	inner := s.inner()
	inner.sym.visit(n.On)
	inner.sym.visitAll(n.Body)
	enter := c.enter(inner)
	on := c.cond(n.On, inner)
	before := c.escaping
	c.escaping = true
	body := c.body(n.Body, inner)
	c.escaping = before
	leave := c.leave(inner)
	return func(f *frame) (control, error) {
		do(enter, f)
		was := f.r.autoescape
		now, err := on(f)
		if err != nil {
			return goOn, at(err, n)
		}
		f.r.autoescape = now
		ctl, err := body(f)
		if ctl == goOn {
			// A jump out of the block leaves the setting on, as Jinja2 does.
			f.r.autoescape = was
		}
		do(leave, f)
		return ctl, err
	}
}

// loader compiles include, import, from and extends, which fail when reached.
func (c *compiler) loader(n *syntax.Loader, s *scope) stmtFunc {
	if n.Tag == "extends" {
		if !s.top {
			c.fail(n, "cannot use extend from a non top-level scope")
		}
		c.extended = c.extended || !s.soft
	}
	expr := c.expr(n.Template, s)
	return func(f *frame) (control, error) {
		_, err := expr(f)
		if err == nil {
			err = pyerr.New(pyerr.Type, "no loader for this environment specified")
		}
		return goOn, at(err, n)
	}
}

// blockStmt prints a block where it stands.
func (c *compiler) blockStmt(n *syntax.Block, s *scope) stmtFunc {
	if c.extended && s.top {
		return nil
	}
	def := c.blocks[n.Name]
	restore := c.scoped(n, s)
	return func(f *frame) (control, error) {
		if n.Required {
			return goOn, at(pyerr.Newf(pyerr.TemplateRuntime, "Required block %s not found",
				value.ReprString(n.Name)), n)
		}
		var undo func()
		if restore != nil {
			undo = restore(f)
		}
		err := def.run(f.r)
		if undo != nil {
			undo()
		}
		return goOn, err
	}
}

// run prints the block's body in a record of its own.
func (b *blockDef) run(r *run) error {
	if err := r.m.Enter(); err != nil {
		return err
	}
	defer r.m.Leave()
	f, err := r.newFrame(b.fn, nil)
	if err != nil {
		return err
	}
	_, err = b.body(f)
	r.endFrame(b.fn, f)
	return err
}

// scoped makes the variables around a scoped block visible in it; the result
// sets them and gives what takes them back.
func (c *compiler) scoped(n *syntax.Block, s *scope) func(f *frame) func() {
	if !n.Scoped {
		return nil
	}
	type binding struct {
		global int
		get    func(f *frame) value.Value
	}
	var list []binding
	for _, name := range s.sym.visible() {
		if r, ok := s.sym.find(name); ok {
			list = append(list, binding{c.global(name), getter(s, r)})
		}
	}
	return func(f *frame) func() {
		before := append([]value.Value(nil), f.r.globals...)
		_ = f.r.m.Work(len(before) / freeSlots) // the block's first step fails if this does
		for _, b := range list {
			if v := b.get(f); !isMissing(v) {
				f.r.globals[b.global] = v
			}
		}
		return func() { copy(f.r.globals, before) }
	}
}
