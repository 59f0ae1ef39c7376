// Package eval turns a syntax tree into closures and runs them.
//
// Compiling goes frame by frame, as Jinja2's code generator does: package
// symbols decide for each name of a frame whether it is looked up among the
// render's variables, copied from the frame around, or unset until bound, and
// give it a slot of the function it belongs to. Each node then becomes a
// closure over slots; what can be decided from the source alone (which method
// a name may mean, whether a chain of + joins texts, whether a macro's text is
// printed at once) is decided there.
package eval

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// A program holds no state of a render. Records, stacks and argument lists
// of finished renders are kept for later ones, emptied of their values.

// Var is one variable of a render.
type Var struct {
	Name  string
	Value value.Value
}

// Input is what one render needs; Limits is complete.
type Input struct {
	Vars   []Var
	Now    func() time.Time
	Limits limit.Limits
}

// Program is a compiled template, immutable and safe for concurrent use.
type Program struct {
	root       stmtFunc
	fn         *function
	names      []string      // of globals, by index
	builtins   []value.Value // their values if the render has no such variable
	undeclared []string
	runs       sync.Pool // of *run, for their buffers
}

// Render runs the program and appends its text to dst; after an error dst is
// returned unchanged.
func (p *Program) Render(ctx context.Context, dst []byte, in Input) ([]byte, error) {
	r, _ := p.runs.Get().(*run)
	if r == nil {
		r = &run{}
	}
	r.m = limit.NewMeter(ctx, in.Limits)
	r.now = in.Now
	r.out = dst
	r.seed = 1
	r.globals = append(r.globals[:0], p.builtins...)
	for _, v := range in.Vars {
		if i := slices.Index(p.names, v.Name); i >= 0 {
			r.globals[i] = v.Value
		}
	}
	err := p.start(r)
	out := r.out
	p.release(r)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// start runs the root. A panic of the engine itself ends the render alone.
func (p *Program) start(r *run) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			r.free = nil
			err = pyerr.Newf("SystemError", "the template engine failed: %v", fault)
		}
	}()
	f, err := r.newFrame(p.fn, nil)
	if err != nil {
		return err
	}
	_, err = p.root(f)
	r.endFrame(p.fn, f)
	return err
}

// Undeclared lists, sorted, names that are read before they are set.
func (p *Program) Undeclared() []string { return p.undeclared }

// Compile makes a program of a tree. Faults are *pyerr.Error of type
// TemplateAssertionError or, where Python would find them, SyntaxError.
func Compile(tree *syntax.Template, limits limit.Limits) (*Program, error) {
	c := &compiler{
		index:      map[string]int{},
		undeclared: map[string]bool{},
		blocks:     map[string]*blockDef{},
	}
	root := c.template(tree)
	if c.err != nil {
		return nil, c.err
	}
	if c.python != nil {
		return nil, c.python
	}
	p := &Program{root: root, fn: c.rootFn, names: c.names}
	p.builtins = make([]value.Value, len(c.names))
	for i, name := range c.names {
		p.builtins[i] = builtin(name)
	}
	for _, name := range sortedNames(c.undeclared) {
		if isMissing(builtin(name)) {
			p.undeclared = append(p.undeclared, name)
		}
	}
	return p, nil
}
