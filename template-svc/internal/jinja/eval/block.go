package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// A block prints where it stands. There is no inheritance, as there is no
// loader; what is left is that a block has variables of its own and that
// self can print it again.

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
		v, err := expr(f)
		if err == nil && n.Tag == "include" {
			err = errInclude(v)
		}
		if n.IgnoreMissing && pyerr.Is(err, pyerr.NotFound) {
			return goOn, nil
		}
		if err == nil {
			err = pyerr.New(pyerr.Type, "no loader for this environment specified")
		}
		return goOn, at(err, n)
	}
}

// errInclude is what include raises before it asks for a loader: it takes a name or some names.
func errInclude(v value.Value) error {
	switch {
	case v.IsStr() || v.IsUndefined():
		return nil
	case !v.Truth():
		return pyerr.New(pyerr.NotFound, "Tried to select from an empty list of templates.")
	}
	_, err := v.Iter()
	return err
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
