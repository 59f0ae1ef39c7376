package syntax

import "strconv"

// The detection reads names without regard to scopes, as vLLM does.

// finder holds what the detection knows of a tree.
type finder struct {
	tree     *Template
	fors     []*For
	inMacro  map[*For]bool
	macros   []*Macro
	calls    []*Call
	messages map[string]bool // names of loop targets over the conversation
	// faulty: a conversation is bound to a tuple, where vLLM gives up.
	faulty bool
}

// newFinder gathers loops, macros and calls and finds the names that stand
// for a message.
func newFinder(t *Template) *finder {
	f := &finder{tree: t, inMacro: map[*For]bool{}, messages: map[string]bool{}}
	var sets []*Set
	Walk(t, func(n Node) bool {
		switch n := n.(type) {
		case *Set:
			sets = append(sets, n)
		case *For:
			f.fors = append(f.fors, n)
		case *Macro:
			f.macros = append(f.macros, n)
			for _, b := range n.Body {
				Walk(b, func(n Node) bool {
					if loop, ok := n.(*For); ok {
						f.inMacro[loop] = true
					}
					return true
				})
			}
		case *Call:
			f.calls = append(f.calls, n)
		}
		return true
	})
	known := f.conversations(sets)
	for _, loop := range f.fors {
		if !known[through(loop.Iter, bareName)] {
			continue
		}
		target, ok := loop.Target.(*Name)
		if !ok {
			f.faulty = true
			continue
		}
		f.messages[target.Name] = true
	}
	return f
}

// conversations gives messages and every name that is set from a known one.
// Each set is looked at once, when the name it reads becomes known.
func (f *finder) conversations(sets []*Set) map[string]bool {
	from := map[string][]*Set{}
	for _, s := range sets {
		if name := through(s.Value, bareName); name != "" {
			from[name] = append(from[name], s)
		}
	}
	known := map[string]bool{"messages": true}
	for queue := []string{"messages"}; len(queue) > 0; queue = queue[1:] {
		for _, s := range from[queue[0]] {
			target, ok := s.Target.(*Name)
			if !ok {
				f.faulty = true
			} else if !known[target.Name] {
				known[target.Name] = true
				queue = append(queue, target.Name)
			}
		}
	}
	return known
}

// through looks through filters, tests and slices at what name gives for the
// operand; "" if it gives nothing.
func through(e Expr, name func(e Expr) string) string {
	for {
		switch n := e.(type) {
		case *Filter:
			e = n.Node
			continue
		case *Test:
			e = n.Node
			continue
		case *Getitem:
			if _, ok := n.Arg.(*Slice); ok {
				e = n.Node
				continue
			}
		}
		return name(e)
	}
}

// bareName gives the name of a variable that is read, "" for any other
// expression.
func bareName(e Expr) string {
	if n, ok := e.(*Name); ok && n.Ctx == Load {
		return n.Name
	}
	return ""
}

// contentOf gives m of m.content and m['content'].
func contentOf(e Expr) string {
	switch n := e.(type) {
	case *Getattr:
		if n.Attr == "content" {
			return bareName(n.Node)
		}
	case *Getitem:
		if k, ok := n.Arg.(*Const); ok && k.Value.Text() == "content" {
			return bareName(n.Node)
		}
	}
	return ""
}

// isContent reports whether an expression is the content of a message.
func (f *finder) isContent(e Expr) bool { return f.messages[through(e, contentOf)] }

// loopsOverContent is the rule of all versions of vLLM.
func (f *finder) loopsOverContent() bool {
	for _, loop := range f.fors {
		if f.isContent(loop.Iter) {
			return true
		}
	}
	return false
}

// loopsOverBareContent is vLLM 0.32's rule for templates that bind content
// first.
func (f *finder) loopsOverBareContent() bool {
	for _, loop := range f.fors {
		if !f.inMacro[loop] && through(loop.Iter, bareName) == "content" {
			return true
		}
	}
	return false
}

// loopsOverParameter is vLLM 0.32's rule for templates that render content
// in a macro.
func (f *finder) loopsOverParameter() bool {
	passed := f.passed()
	for _, m := range f.macros {
		if len(passed[m.Name]) == 0 {
			continue
		}
		looped := map[string]bool{}
		for _, b := range m.Body {
			Walk(b, func(n Node) bool {
				if loop, ok := n.(*For); ok {
					looped[through(loop.Iter, bareName)] = true
				}
				return true
			})
		}
		for i, p := range m.Params {
			if looped[p.Name] && (passed[m.Name]["#"+strconv.Itoa(i)] || passed[m.Name][p.Name]) {
				return true
			}
		}
	}
	return false
}

// passed says where a call of a macro passes the content of a message: "#1"
// for its second place, "name" for a keyword.
func (f *finder) passed() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, c := range f.calls {
		name := bareName(c.Func)
		if name == "" {
			continue
		}
		if out[name] == nil {
			out[name] = map[string]bool{}
		}
		for i, e := range c.Args.Pos {
			if f.isContent(e) {
				out[name]["#"+strconv.Itoa(i)] = true
			}
		}
		for _, k := range c.Args.Kw {
			if f.isContent(k.Value) {
				out[name][k.Key] = true
			}
		}
	}
	return out
}
