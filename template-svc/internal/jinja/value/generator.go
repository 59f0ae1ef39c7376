package value

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Generators are what lazy filters give. They print as Python's do, but for
// the address.

// Generator is a lazy, single-use sequence without a length. It belongs to one
// render and is not safe for concurrent use.
type Generator struct {
	name    string
	next    func() (Value, bool, error)
	done    bool
	running bool
}

// NewGenerator makes a generator of next; name is its Python type, such as
// "generator" or "list_reverseiterator".
func NewGenerator(name string, next func() (Value, bool, error)) Value {
	return OfObject(&Generator{name: name, next: next})
}

// TypeName is the Python type given to NewGenerator.
func (g *Generator) TypeName() string { return g.name }

// Iter gives g itself: a second loop goes on where the first one stopped.
func (g *Generator) Iter() Iterator { return g }

// Next gives the next value; after the end or an error there are none.
func (g *Generator) Next() (Value, bool, error) {
	if g.done {
		return Value{}, false, nil
	}
	if g.running {
		return Value{}, false, pyerr.New(pyerr.Value, "generator already executing")
	}
	g.running = true
	v, ok, err := g.next()
	g.running = false
	g.done = !ok || err != nil
	return v, ok, err
}

// AppendRepr prints the generator as Python does, without its address.
func (g *Generator) AppendRepr(p *Printer) error {
	if g.name == "generator" {
		return p.Write("<generator object>")
	}
	return p.Write("<" + g.name + " object>")
}
