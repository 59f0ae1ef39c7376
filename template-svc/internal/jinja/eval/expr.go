package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// constant compiles a value that is known.
func constant(v value.Value) exprFunc {
	return func(*frame) (value.Value, error) { return v, nil }
}

// expr compiles an expression.
func (c *compiler) expr(e syntax.Expr, s *scope) exprFunc {
	usual := c.plainExpr(e, s)
	if !c.folding && isFolded(e) && hasConstantSlice(e) {
		return c.foldable(e, s, usual, false)
	}
	return usual
}

// isFolded reports whether Jinja2 tries to compute an expression ahead of time.
func isFolded(e syntax.Expr) bool {
	switch e.(type) {
	case *syntax.Cond, *syntax.Filter, *syntax.Test, *syntax.Getattr, *syntax.Getitem, *syntax.Concat, *syntax.Compare,
		*syntax.Binary, *syntax.Unary:
		return true
	}
	return false
}

// plainExpr compiles an expression as it stands, without the question
// whether it could be computed ahead of time.
func (c *compiler) plainExpr(e syntax.Expr, s *scope) exprFunc {
	switch n := e.(type) {
	case *syntax.Const:
		return constant(n.Value)
	case *syntax.Text:
		return constant(value.Str(n.Data))
	case *syntax.Name:
		if _, ok := s.sym.find(n.Name); !ok {
			c.unknownName(n)
			return constant(value.None)
		}
		return c.name(n, s)
	case *syntax.Tuple:
		return c.cells(n.Items, s, value.Tuple)
	case *syntax.List:
		return c.cells(n.Items, s, value.List)
	case *syntax.Dict:
		return c.dict(n, s)
	case *syntax.Cond:
		return c.condExpr(n, s)
	case *syntax.Filter:
		return c.filter(n, s)
	case *syntax.Test:
		test := c.test(n, s)
		return func(f *frame) (value.Value, error) {
			ok, err := test(f)
			return value.Bool(ok), err
		}
	case *syntax.Call:
		call := c.call(n, s, false)
		return func(f *frame) (value.Value, error) { return call(f, value.Value{}) }
	case *syntax.Getattr:
		return c.getattr(n, s)
	case *syntax.Getitem:
		return c.getitem(n, s)
	case *syntax.Concat:
		return c.concat(n, s)
	case *syntax.Compare:
		return c.compare(n, s)
	case *syntax.Binary:
		return c.binary(n, s)
	case *syntax.Unary:
		return c.unary(n, s)
	}
	c.fail(e, "unexpected expression")
	return constant(value.None)
}

// unknownName fails as Jinja2's code generator does for a name that only the
// filter of a set block reads.
func (c *compiler) unknownName(n *syntax.Name) {
	c.fail(n, "Tried to resolve a name to a reference that was unknown to the frame (%s)", value.ReprString(n.Name))
	if e, ok := c.err.(*pyerr.Error); ok && e.Line == n.Line && e.Col == n.Col {
		e.Type = "AssertionError"
	}
}

// cells compiles a list or tuple; one of constants is made once.
func (c *compiler) cells(items []syntax.Expr, s *scope, wrap func([]value.Value) value.Value) exprFunc {
	parts := make([]exprFunc, len(items))
	fixed := make([]value.Value, len(items))
	allFixed := true
	for i, e := range items {
		parts[i] = c.expr(e, s)
		k, ok := e.(*syntax.Const)
		if allFixed = allFixed && ok; ok {
			fixed[i] = k.Value
		}
	}
	if allFixed {
		return constant(wrap(fixed))
	}
	return func(f *frame) (value.Value, error) {
		if err := f.r.m.Bytes(cellBytes * len(parts)); err != nil {
			return value.Value{}, err
		}
		out := make([]value.Value, len(parts))
		for i, p := range parts {
			v, err := p(f)
			if err != nil {
				return value.Value{}, err
			}
			out[i] = v
		}
		return wrap(out), nil
	}
}

// dict compiles a dict literal. Keys and values are computed pairwise in
// order; an equal key replaces the value and keeps the place.
func (c *compiler) dict(n *syntax.Dict, s *scope) exprFunc {
	keys := make([]exprFunc, len(n.Keys))
	vals := make([]exprFunc, len(n.Keys))
	for i := range n.Keys {
		keys[i] = c.expr(n.Keys[i], s)
		vals[i] = c.expr(n.Values[i], s)
	}
	return func(f *frame) (value.Value, error) {
		if err := f.r.m.Bytes(objectBytes/2 + 2*cellBytes*len(keys)); err != nil {
			return value.Value{}, err
		}
		d := value.NewDict(len(keys))
		for i := range keys {
			k, err := keys[i](f)
			if err != nil {
				return value.Value{}, err
			}
			v, err := vals[i](f)
			if err != nil {
				return value.Value{}, err
			}
			if err := value.ChargeKey(&f.r.m, k); err != nil {
				return value.Value{}, err
			}
			if err := d.Set(k, v); err != nil {
				return value.Value{}, at(err, n)
			}
		}
		return value.OfDict(d), nil
	}
}

// condExpr compiles "a if test else b"; without else the false branch is
// undefined with a hint that names the line.
func (c *compiler) condExpr(n *syntax.Cond, s *scope) exprFunc {
	s = s.softly()
	test := c.cond(n.Test, s)
	then := c.expr(n.Then, s)
	var other exprFunc
	if n.Else != nil {
		other = c.expr(n.Else, s)
	} else {
		p := n.At()
		e := pyerr.Newf("", "the inline if-expression on line %d evaluated to false and no else section was defined.", p.Line)
		other = constant(value.Undefined(&value.Undef{Hint: e.Message}))
	}
	return func(f *frame) (value.Value, error) {
		ok, err := test(f)
		if err != nil {
			return value.Value{}, err
		}
		if ok {
			return then(f)
		}
		return other(f)
	}
}

// cond compiles an expression that only its truth is asked of.
func (c *compiler) cond(e syntax.Expr, s *scope) func(f *frame) (bool, error) {
	if !c.folding && isFolded(e) && hasConstantSlice(e) {
		return truth(c.expr(e, s))
	}
	switch n := e.(type) {
	case *syntax.Test:
		return c.test(n, s)
	case *syntax.Compare:
		if len(n.Ops) == 1 {
			return c.comparison(n, s)
		}
	case *syntax.Unary:
		if n.Op == "not" {
			test := c.cond(n.Node, s)
			return func(f *frame) (bool, error) {
				ok, err := test(f)
				return !ok, err
			}
		}
	case *syntax.Binary:
		if n.Op == "and" || n.Op == "or" {
			left, right := c.cond(n.Left, s), c.cond(n.Right, s)
			stop := n.Op == "or"
			return func(f *frame) (bool, error) {
				if ok, err := left(f); ok == stop || err != nil {
					return ok, err
				}
				return right(f)
			}
		}
	}
	return truth(c.expr(e, s))
}

// truth compiles the question whether an expression is true.
func truth(expr exprFunc) func(f *frame) (bool, error) {
	return func(f *frame) (bool, error) {
		v, err := expr(f)
		return v.Truth(), err
	}
}

// unary compiles not, - and +.
func (c *compiler) unary(n *syntax.Unary, s *scope) exprFunc {
	if n.Op == "not" {
		inner := c.cond(n.Node, s)
		test := func(f *frame) (bool, error) {
			ok, err := inner(f)
			return !ok, err
		}
		return func(f *frame) (value.Value, error) {
			ok, err := test(f)
			return value.Bool(ok), err
		}
	}
	expr := c.expr(n.Node, s)
	return func(f *frame) (value.Value, error) {
		v, err := expr(f)
		if err == nil {
			v, err = value.Unary(n.Op, v)
		}
		if err != nil {
			return value.Value{}, at(err, n)
		}
		return v, nil
	}
}

// binary compiles a binary operator; "and" and "or" give an operand and
// compute the right one only if needed.
func (c *compiler) binary(n *syntax.Binary, s *scope) exprFunc {
	if n.Op == "+" {
		return c.sum(n, s)
	}
	if inner, ok := negativeBase(n); ok {
		return c.unary(&syntax.Unary{Pos: n.Pos, Op: "-", Node: inner}, s)
	}
	left, right := c.expr(n.Left, s), c.expr(n.Right, s)
	if n.Op == "and" || n.Op == "or" {
		stop := n.Op == "or"
		return func(f *frame) (value.Value, error) {
			v, err := left(f)
			if err != nil || v.Truth() == stop {
				return v, err
			}
			return right(f)
		}
	}
	return func(f *frame) (value.Value, error) {
		a, err := left(f)
		if err != nil {
			return value.Value{}, err
		}
		b, err := right(f)
		if err != nil {
			return value.Value{}, err
		}
		v, err := value.Binary(&f.r.m, n.Op, a, b)
		if err != nil {
			return value.Value{}, at(err, n)
		}
		return v, nil
	}
}

// negativeBase recognises -2 ** x: Jinja2 writes the folded literal into Python
// source, where ** binds tighter than the sign, so it means -(2 ** x) unless x
// is a literal too.
func negativeBase(n *syntax.Binary) (*syntax.Binary, bool) {
	neg, ok := n.Left.(*syntax.Unary)
	if n.Op != "**" || !ok || neg.Op != "-" {
		return nil, false
	}
	if _, ok := neg.Node.(*syntax.Const); !ok || isLiteral(n.Right) {
		return nil, false
	}
	return &syntax.Binary{Pos: n.Pos, Op: "**", Left: neg.Node, Right: n.Right}, true
}

// isLiteral reports whether an expression holds neither names nor calls.
func isLiteral(e syntax.Expr) bool {
	literal := true
	syntax.Walk(e, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.Name, *syntax.Call:
			literal = false
		}
		return literal
	})
	return literal
}

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

// concat compiles a chain of ~: the texts of all operands, joined.
func (c *compiler) concat(n *syntax.Concat, s *scope) exprFunc {
	parts := make([]exprFunc, len(n.Nodes))
	for i, e := range n.Nodes {
		parts[i] = c.expr(e, s)
	}
	escaping := c.escaping
	return func(f *frame) (value.Value, error) {
		var space [textParts]value.Value
		vals := space[:0]
		for _, p := range parts {
			v, err := p(f)
			if err != nil {
				return value.Value{}, err
			}
			vals = append(vals, v)
		}
		v, err := concatValues(f, vals, escaping)
		return v, at(err, n)
	}
}

// concatValues joins the texts of values; with escaping on, one Markup among
// them makes the result Markup and escapes the rest.
func concatValues(f *frame, vals []value.Value, escaping bool) (value.Value, error) {
	p := value.Printer{Meter: &f.r.m}
	markup := false
	if escaping && f.r.autoescape {
		for _, v := range vals {
			markup = markup || v.IsMarkup()
		}
	}
	for _, v := range vals {
		start := len(p.Buf)
		if err := p.Str(v); err != nil {
			return value.Value{}, err
		}
		if markup && !v.IsMarkup() {
			p.Buf = append(p.Buf[:start], value.Escape(string(p.Buf[start:]))...)
		}
	}
	return value.StrOfBytes(p.Buf).WithMarkup(markup), nil
}

// compare compiles a chain of comparisons: each operand is computed once,
// and the first false one ends the chain.
func (c *compiler) compare(n *syntax.Compare, s *scope) exprFunc {
	if len(n.Ops) == 1 {
		test := c.comparison(n, s)
		return func(f *frame) (value.Value, error) {
			ok, err := test(f)
			return value.Bool(ok), err
		}
	}
	first := c.expr(n.Expr, s)
	rest := make([]exprFunc, len(n.Ops))
	for i, o := range n.Ops {
		rest[i] = c.expr(o.Expr, s)
	}
	return func(f *frame) (value.Value, error) {
		a, err := first(f)
		if err != nil {
			return value.Value{}, err
		}
		for i, e := range rest {
			b, err := e(f)
			if err != nil {
				return value.Value{}, err
			}
			ok, err := relation(&f.r.m, n.Ops[i].Op, a, b)
			if err != nil {
				return value.Value{}, at(err, n)
			}
			if !ok {
				return value.False, nil
			}
			a = b
		}
		return value.True, nil
	}
}

// relation is one comparison.
func relation(m *limit.Meter, op string, a, b value.Value) (bool, error) {
	switch op {
	case "eq":
		return value.Equal(m, a, b)
	case "ne":
		ok, err := value.Equal(m, a, b)
		return !ok, err
	case "in":
		return value.Contains(m, a, b)
	case "notin":
		ok, err := value.Contains(m, a, b)
		return !ok, err
	case "lt":
		return value.Compare(m, value.Less, a, b)
	case "lteq":
		return value.Compare(m, value.LessEqual, a, b)
	case "gt":
		return value.Compare(m, value.Greater, a, b)
	}
	return value.Compare(m, value.GreaterEqual, a, b)
}

// comparison compiles a comparison of two operands; with a constant text, the
// usual case, it costs one string comparison.
func (c *compiler) comparison(n *syntax.Compare, s *scope) func(f *frame) (bool, error) {
	left, right := c.expr(n.Expr, s), c.expr(n.Ops[0].Expr, s)
	op := n.Ops[0].Op
	k, isConst := n.Ops[0].Expr.(*syntax.Const)
	if isConst && k.Value.IsStr() && (op == "eq" || op == "ne") {
		text, want := k.Value.AsStr(), op == "eq"
		cost := 1 + len(text)/256
		return func(f *frame) (bool, error) {
			v, err := left(f)
			if cost > 1 && err == nil {
				err = f.r.m.Work(cost)
			}
			return (v.IsStr() && v.AsStr() == text) == want, err
		}
	}
	return func(f *frame) (bool, error) {
		a, err := left(f)
		if err != nil {
			return false, err
		}
		b, err := right(f)
		if err != nil {
			return false, err
		}
		ok, err := relation(&f.r.m, op, a, b)
		if err != nil {
			return false, at(err, n)
		}
		return ok, nil
	}
}
