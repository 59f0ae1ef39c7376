package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Chat templates build texts with long chains of +. A chain of plain
// strings is gathered and joined once, or printed piece by piece; the first
// operand of another type turns it into a chain of sums.

// sumTerms flattens a chain of + to its operands, left to right.
func sumTerms(e syntax.Expr, terms []syntax.Expr, nodes []syntax.Node) ([]syntax.Expr, []syntax.Node) {
	if b, ok := e.(*syntax.Binary); ok && b.Op == "+" {
		terms, nodes = sumTerms(b.Left, terms, nodes)
		return append(terms, b.Right), append(nodes, b)
	}
	return append(terms, e), append(nodes, e)
}

// adder is a compiled chain of +. As long as all operands are plain strings
// they are gathered and joined once.
type adder struct {
	terms []exprFunc
	nodes []syntax.Node
}

// textParts is how many operands are gathered without allocating.
const textParts = 12

// adder compiles the operands of a chain of +.
func (c *compiler) adder(n *syntax.Binary, s *scope) *adder {
	terms, nodes := sumTerms(n, nil, nil)
	a := &adder{nodes: nodes, terms: make([]exprFunc, len(terms))}
	for i, t := range terms {
		a.terms[i] = c.expr(t, s)
	}
	return a
}

// run gives either the parts of a text, if all operands are plain strings, or
// the sum.
func (a *adder) run(f *frame, parts []string) (texts []string, sum value.Value, err error) {
	isText := true
	for i, t := range a.terms {
		v, err := t(f)
		if err != nil {
			return nil, v, err
		}
		switch {
		case isText && v.IsStr() && !v.IsMarkup():
			parts = append(parts, v.AsStr())
			continue
		case isText && i > 0:
			if sum, err = joined(&f.r.m, parts); err != nil {
				return nil, v, err
			}
		}
		if i == 0 {
			sum = v
		} else if sum, err = value.Binary(&f.r.m, "+", sum, v); err != nil {
			return nil, v, at(err, a.nodes[i])
		}
		isText = false
	}
	if isText {
		return parts, value.Value{}, nil
	}
	return nil, sum, nil
}

// joined makes one text of parts with a single allocation.
func joined(m *limit.Meter, parts []string) (value.Value, error) {
	if len(parts) == 1 {
		return value.Str(parts[0]), nil
	}
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if err := m.Bytes(n); err != nil {
		return value.Value{}, err
	}
	b := make([]byte, 0, n)
	for _, p := range parts {
		b = append(b, p...)
	}
	return value.StrOfBytes(b), nil
}

// sum compiles a chain of + whose result is a value.
func (c *compiler) sum(n *syntax.Binary, s *scope) exprFunc {
	a := c.adder(n, s)
	return func(f *frame) (value.Value, error) {
		var space [textParts]string
		parts, v, err := a.run(f, space[:0])
		if parts == nil || err != nil {
			return v, err
		}
		return joined(&f.r.m, parts)
	}
}
