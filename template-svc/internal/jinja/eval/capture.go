package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Set blocks and filter blocks print to the output like everything else;
// their text is cut off its end afterwards.

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
