package eval

// Loops, with and filter blocks have frames within the function around
// them. Macros, call bodies, recursive loops and loop filters are functions
// of their own, as in the Python code that Jinja2 generates, which decides
// what a closure sees.

// function is what one activation record belongs to at run time: the root, a
// block, a macro or call body, a recursive loop or a loop's filter. Frames
// inside one share its slots.
type function struct {
	outer *function
	slots map[slotName]int
	// inner: closures of this function may outlive it, so its record must not
	// be used again.
	inner bool
}

// slotName names a variable of a function: frames of one nesting level share
// it, as Jinja2's generated code does.
type slotName struct {
	level int
	name  string
}

// newFunction makes a function within outer, whose records then have to
// outlive their calls.
func newFunction(outer *function) *function {
	for f := outer; f != nil; f = f.outer {
		f.inner = true
	}
	return &function{outer: outer, slots: map[slotName]int{}}
}

// slot gives the slot of a name at a nesting level, a new one if it has
// none.
func (f *function) slot(level int, name string) int {
	key := slotName{level, name}
	i, ok := f.slots[key]
	if !ok {
		i = len(f.slots)
		f.slots[key] = i
	}
	return i
}

// ref is a variable: a slot of a function.
type ref struct {
	fn   *function
	slot int
}
