package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// self gives the blocks of the template as functions.

// blockSet is self: its attributes are the template's blocks.
type blockSet struct {
	r      *run
	blocks map[string]*blockDef
}

// TypeName is TemplateReference.
func (s *blockSet) TypeName() string { return "TemplateReference" }

// Module is jinja2.runtime.
func (s *blockSet) Module() string { return "jinja2.runtime" }

// AppendRepr prints the reference with the template's name, of which a chat template has none.
func (s *blockSet) AppendRepr(p *value.Printer) error { return p.Write("<TemplateReference None>") }

// Item gives a block as a function.
func (s *blockSet) Item(key value.Value) (value.Value, bool) {
	b := s.blocks[key.Text()]
	if b == nil {
		return value.Value{}, false
	}
	return method(b.node.Name, func(r *run, _ *args) (value.Value, error) {
		start := len(r.out)
		err := b.run(r)
		text := r.cut(start)
		return value.Str(text).WithMarkup(r.autoescape), err
	}), true
}
