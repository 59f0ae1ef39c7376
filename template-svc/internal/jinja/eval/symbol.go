package eval

import (
	"sort"
)

// Jinja2 decides per frame, before it generates code, where each name comes
// from. The rules below are those of its idtracking module: they decide
// what a template prints, and which kwargs of a request count as used.

// action says how a variable gets its value when its frame is entered.
type action uint8

const (
	loadParam     action = iota // the code around the frame sets it
	loadResolve                 // looked up among the render's variables
	loadAlias                   // copied from the outer frame
	loadUndefined               // not there until it is set
)

// load is one variable of a frame.
type load struct {
	ref   ref
	do    action
	name  string // of loadResolve and loadAlias
	outer ref    // of loadAlias
}

// symbols are the names of one frame. An if branch has symbols of its own on
// top of base, merged into it when the if is done.
type symbols struct {
	level  int
	fn     *function
	parent *symbols
	base   *symbols
	refs   map[string]ref
	loads  []load
	at     map[ref]int // place in loads
	stores map[string]bool
}

// newSymbols makes the symbols of an empty frame.
func newSymbols(parent *symbols, fn *function, level int) *symbols {
	return &symbols{
		level: level, fn: fn, parent: parent,
		refs: map[string]ref{}, at: map[ref]int{}, stores: map[string]bool{},
	}
}

// own looks name up in this frame, branches below an if included.
func (s *symbols) own(name string) (ref, bool) {
	for b := s; b != nil; b = b.base {
		if r, ok := b.refs[name]; ok {
			return r, true
		}
	}
	return ref{}, false
}

// find looks name up here and in the frames around.
func (s *symbols) find(name string) (ref, bool) {
	for f := s; f != nil; f = f.parent {
		if r, ok := f.own(name); ok {
			return r, true
		}
	}
	return ref{}, false
}

// stored reports whether this frame binds name.
func (s *symbols) stored(name string) bool {
	for b := s; b != nil; b = b.base {
		if b.stores[name] {
			return true
		}
	}
	return false
}

// setLoad says how a variable gets its value, in place of what was said
// before.
func (s *symbols) setLoad(l load) {
	if i, ok := s.at[l.ref]; ok {
		s.loads[i] = l
		return
	}
	s.at[l.ref] = len(s.loads)
	s.loads = append(s.loads, l)
}

// define gives name a slot in this frame.
func (s *symbols) define(name string, l load) ref {
	l.ref = ref{s.fn, s.fn.slot(s.level, name)}
	s.refs[name] = l.ref
	s.setLoad(l)
	return l.ref
}

// param declares a name whose value comes from the code around the frame.
func (s *symbols) param(name string) ref {
	s.stores[name] = true
	return s.define(name, load{do: loadParam})
}

// store enters a binding: a name that is new here starts as the variable of
// that name around, or unset.
func (s *symbols) store(name string) {
	s.stores[name] = true
	if _, ok := s.own(name); ok {
		return
	}
	if s.parent != nil {
		if outer, ok := s.parent.find(name); ok {
			s.define(name, load{do: loadAlias, name: name, outer: outer})
			return
		}
	}
	s.define(name, load{do: loadUndefined})
}

// use enters a reading: a name nobody around knows is one of the render's
// variables.
func (s *symbols) use(name string) {
	if _, ok := s.find(name); !ok {
		s.define(name, load{do: loadResolve, name: name})
	}
}

// branch merges the branches of an if: a name first stored in one of them may
// not be set when the if is done, so it starts as the outer variable of its
// name or is looked up.
func (s *symbols) branch(branches []*symbols) {
	fresh := map[string]bool{}
	for _, b := range branches {
		for name := range b.stores {
			if !s.stored(name) {
				fresh[name] = true
			}
		}
	}
	for _, b := range branches {
		for name, r := range b.refs {
			s.refs[name] = r
		}
		for _, l := range b.loads {
			s.setLoad(l)
		}
		for name := range b.stores {
			s.stores[name] = true
		}
	}
	for _, name := range sortedNames(fresh) {
		target, _ := s.find(name)
		l := load{ref: target, do: loadResolve, name: name}
		if s.parent != nil {
			if outer, ok := s.parent.find(name); ok {
				l = load{ref: target, do: loadAlias, name: name, outer: outer}
			}
		}
		s.setLoad(l)
	}
}

// sortedNames lists a set.
func sortedNames(set map[string]bool) []string {
	names := make([]string, 0, len(set))
	for n := range set {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// visible lists the names stored here and in the frames around, inner first.
func (s *symbols) visible() []string {
	set := map[string]bool{}
	for f := s; f != nil; f = f.parent {
		for b := f; b != nil; b = b.base {
			for n := range b.stores {
				set[n] = true
			}
		}
	}
	return sortedNames(set)
}
