package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// A frame at compile time is a scope; at run time its variables are slots
// of the record of the function it belongs to. Entering a frame sets up the
// slots whose names it binds, and nothing else.

// scope is a frame at compile time.
type scope struct {
	sym *symbols
	// top: statements here export what they bind to blocks and macros.
	top bool
	// soft: an if or inline-if around, without a frame between, so an unknown
	// filter or test fails only when it is reached.
	soft bool
	// loop: break and continue have a loop to act on within the function.
	loop bool
}

// inner is a scope of its own within the same function.
func (s *scope) inner() *scope {
	return &scope{sym: newSymbols(s.sym, s.sym.fn, s.sym.level+1), loop: s.loop}
}

// function is a scope that is entered by a call.
func (s *scope) function() *scope {
	return &scope{sym: newSymbols(s.sym, newFunction(s.sym.fn), s.sym.level+1)}
}

// softly is the scope of an if or inline-if: the same frame, but unknown
// filters and tests fail only when they are reached.
func (s *scope) softly() *scope {
	c := *s
	c.soft = true
	return &c
}

// frame is an activation record at run time.
type frame struct {
	r     *run
	slots []value.Value
	up    *frame // record of the function around
}

// exprFunc computes an expression.
type exprFunc func(f *frame) (value.Value, error)

// control says how a statement ended.
type control uint8

const (
	goOn control = iota
	doBreak
	doContinue
)

// stmtFunc runs a statement.
type stmtFunc func(f *frame) (control, error)

// hops is the number of records between code of fn and the one that r is in.
func hops(fn *function, r ref) int {
	n := 0
	for f := fn; f != r.fn; f = f.outer {
		n++
	}
	return n
}

// enter gives the code that sets up the variables of a frame; nil if none
// needs it.
func (c *compiler) enter(s *scope) func(f *frame) {
	var steps []func(f *frame)
	for _, l := range s.sym.loads {
		slot := l.ref.slot
		switch l.do {
		case loadResolve:
			i := c.global(l.name)
			c.undeclared[l.name] = true
			if !s.sym.stored(l.name) {
				break // read from the render's variables directly
			}
			steps = append(steps, func(f *frame) { f.slots[slot] = f.r.globals[i] })
		case loadAlias:
			get := getter(s, l.outer)
			if direct(s.sym.parent, l.name) { // the outer frame has no slot filled with it
				i := c.global(l.name)
				get = func(f *frame) value.Value { return f.r.globals[i] }
			}
			steps = append(steps, func(f *frame) { f.slots[slot] = get(f) })
		case loadUndefined:
			steps = append(steps, func(f *frame) { f.slots[slot] = value.Value{} })
		}
	}
	switch len(steps) {
	case 0:
		return nil
	case 1:
		return steps[0]
	}
	price := len(steps) / freeSlots
	return func(f *frame) {
		if price > 0 {
			_ = f.r.m.Work(price) // the frame's first step fails if this does
		}
		for _, step := range steps {
			step(f)
		}
	}
}

// leave gives the code that unsets a frame's variables, for closures that
// captured them; nil if there can be none.
func (c *compiler) leave(s *scope) func(f *frame) {
	if !s.sym.fn.inner || len(s.sym.loads) == 0 {
		return nil
	}
	slots := make([]int, len(s.sym.loads))
	for i, l := range s.sym.loads {
		slots[i] = l.ref.slot
	}
	return func(f *frame) {
		for _, i := range slots {
			f.slots[i] = value.Value{}
		}
	}
}

// do runs a step if there is one.
func do(step func(f *frame), f *frame) {
	if step != nil {
		step(f)
	}
}
