package syntax

// Children come in the order of Jinja2's own node fields, on which the
// rules for undeclared names depend.

// Walk visits n and what it holds, parents first, in the order of the source;
// a false result of visit skips a node's children.
func Walk(n Node, visit func(Node) bool) {
	if n == nil || !visit(n) {
		return
	}
	Children(n, func(c Node) { Walk(c, visit) })
}

// Children calls f with each direct child of n in Jinja2's field order.
func Children(n Node, f func(Node)) {
	expr := func(e Expr) {
		if e != nil {
			f(e)
		}
	}
	switch n := n.(type) {
	case *Template:
		each(n.Body, f)
	case *Output:
		eachExpr(n.Nodes, f)
	case *For:
		expr(n.Target)
		expr(n.Iter)
		each(n.Body, f)
		each(n.Else, f)
		expr(n.Test)
	case *If:
		expr(n.Test)
		each(n.Body, f)
		for _, e := range n.Elif {
			f(e)
		}
		each(n.Else, f)
	case *Macro:
		n.Signature.children(f)
		each(n.Body, f)
	case *CallBlock:
		f(n.Call)
		n.Signature.children(f)
		each(n.Body, f)
	case *Generation:
		each(n.Body, f)
	case *FilterBlock:
		each(n.Body, f)
		f(n.Filter)
	case *With:
		eachExpr(n.Targets, f)
		eachExpr(n.Values, f)
		each(n.Body, f)
	case *Block:
		each(n.Body, f)
	case *Set:
		expr(n.Target)
		expr(n.Value)
	case *SetBlock:
		expr(n.Target)
		if n.Filter != nil {
			f(n.Filter)
		}
		each(n.Body, f)
	case *Autoescape:
		expr(n.On)
		each(n.Body, f)
	case *Loader:
		expr(n.Template)
	case Expr:
		exprChildren(n, f)
	}
}

// exprChildren is Children for expressions.
func exprChildren(n Expr, f func(Node)) {
	expr := func(e Expr) {
		if e != nil {
			f(e)
		}
	}
	switch n := n.(type) {
	case *Tuple:
		eachExpr(n.Items, f)
	case *List:
		eachExpr(n.Items, f)
	case *Dict:
		for i := range n.Keys {
			f(n.Keys[i])
			f(n.Values[i])
		}
	case *Cond:
		expr(n.Test)
		expr(n.Then)
		expr(n.Else)
	case *Filter:
		expr(n.Node)
		n.Args.children(f)
	case *Test:
		expr(n.Node)
		n.Args.children(f)
	case *Call:
		expr(n.Func)
		n.Args.children(f)
	case *Getattr:
		expr(n.Node)
	case *Getitem:
		expr(n.Node)
		expr(n.Arg)
	case *Slice:
		expr(n.Start)
		expr(n.Stop)
		expr(n.Step)
	case *Concat:
		eachExpr(n.Nodes, f)
	case *Compare:
		expr(n.Expr)
		for _, o := range n.Ops {
			f(o.Expr)
		}
	case *Binary:
		expr(n.Left)
		expr(n.Right)
	case *Unary:
		expr(n.Node)
	}
}

// each calls f with each node.
func each(ns []Node, f func(Node)) {
	for _, n := range ns {
		f(n)
	}
}

// eachExpr calls f with each expression.
func eachExpr(es []Expr, f func(Node)) {
	for _, e := range es {
		f(e)
	}
}

// children calls f with parameters and then defaults.
func (s *Signature) children(f func(Node)) {
	for _, p := range s.Params {
		f(p)
	}
	eachExpr(s.Defaults, f)
}

// children calls f with the arguments in the order they are computed.
func (a *Args) children(f func(Node)) {
	eachExpr(a.Pos, f)
	for _, k := range a.Kw {
		f(k.Value)
	}
	if a.Star != nil {
		f(a.Star)
	}
	if a.StarStar != nil {
		f(a.StarStar)
	}
}
