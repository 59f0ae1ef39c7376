package eval

import (
	"strconv"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// For lists and tuples the loop variable is an index; for all else it holds
// one value back and one ahead.

// loop is the loop variable. It reads one value ahead only when a template
// asks for last or nextitem, and the rest only for a length that a sequence
// does not have.
type loop struct {
	self    value.Object // the object itself, for values that share it
	r       *run
	cells   []value.Value // the sequence if it is a list or tuple
	isCells bool
	it      value.Iterator
	length  int // -1 while unknown
	index0  int
	ahead   value.Value
	peeked  bool // ahead is valid
	ended   bool // nothing is ahead
	before  value.Value
	current value.Value
	changed []value.Value
	seen    bool // changed is valid
	recurse *recursion
	depth0  int
}

// newLoop makes the loop object of a loop over it, whose sequence is seq
// unless a filter stands between.
func newLoop(r *run, seq value.Value, it value.Iterator, filtered bool) *loop {
	lp := &loop{r: r, it: it, index0: -1, length: -1}
	lp.self = lp
	if filtered {
		return lp
	}
	switch seq.Kind() {
	case value.KindList, value.KindTuple:
		lp.cells, lp.isCells = seq.Cells(), true
		lp.length = len(lp.cells)
	default:
		if n, err := seq.Len(); err == nil {
			lp.length = n
		}
	}
	return lp
}

// next moves to the next round.
func (lp *loop) next() (value.Value, bool, error) {
	if lp.isCells {
		if lp.index0+1 >= len(lp.cells) {
			return value.Value{}, false, nil
		}
		lp.index0++
		return lp.cells[lp.index0], true, nil
	}
	if err := lp.peek(); err != nil || lp.ended {
		return value.Value{}, false, err
	}
	lp.index0++
	lp.before, lp.current = lp.current, lp.ahead
	lp.peeked = false
	return lp.current, true, nil
}

// peek reads the value after the current one.
func (lp *loop) peek() error {
	if lp.peeked || lp.ended {
		return nil
	}
	v, ok, err := lp.it.Next()
	if err != nil {
		return err
	}
	lp.ahead, lp.peeked, lp.ended = v, ok, !ok
	return nil
}

// last reports whether this is the last round, reading one value ahead if
// it must.
func (lp *loop) last() (bool, error) {
	if lp.isCells {
		return lp.index0+1 >= len(lp.cells), nil
	}
	err := lp.peek()
	return lp.ended, err
}

// Len gives the number of rounds, reading the rest of a generator.
func (lp *loop) Len() (int, error) {
	if lp.length >= 0 {
		return lp.length, nil
	}
	var rest []value.Value
	for {
		v, ok, err := lp.it.Next()
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		if err := lp.r.cell(); err != nil {
			return 0, err
		}
		rest = append(rest, v)
	}
	lp.it = value.FromCells(rest)
	lp.length = len(rest) + lp.index0 + 1
	if lp.peeked {
		lp.length++
	}
	return lp.length, nil
}

// TypeName is LoopContext.
func (lp *loop) TypeName() string { return "LoopContext" }

// Module is jinja2.runtime.
func (lp *loop) Module() string { return "jinja2.runtime" }

// AppendRepr prints "<LoopContext 1/3>".
func (lp *loop) AppendRepr(p *value.Printer) error {
	n, err := lp.Len()
	if err != nil {
		return err
	}
	return p.Write("<LoopContext " + strconv.Itoa(lp.index0+1) + "/" + strconv.Itoa(n) + ">")
}

// Iter gives (item, loop) for the rounds to come.
func (lp *loop) Iter() value.Iterator { return lp }

// Next moves to the next round, as iterating over the loop itself does.
func (lp *loop) Next() (value.Value, bool, error) {
	v, ok, err := lp.next()
	if !ok || err != nil {
		return v, ok, err
	}
	return value.Tuple([]value.Value{v, value.OfObjectRef(&lp.self)}), true, nil
}
