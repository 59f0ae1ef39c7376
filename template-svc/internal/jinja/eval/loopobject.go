package eval

import (
	"strconv"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

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

var (
	noPrevious = value.Undefined(&value.Undef{Hint: "there is no previous item"})
	noNext     = value.Undefined(&value.Undef{Hint: "there is no next item"})
)

// previous is loop.previtem, undefined with a hint in the first round.
func (lp *loop) previous() value.Value {
	switch {
	case lp.index0 <= 0:
		return noPrevious
	case lp.isCells:
		return lp.cells[lp.index0-1]
	}
	return lp.before
}

// nextItem is loop.nextitem, undefined with a hint in the last round.
func (lp *loop) nextItem() (value.Value, error) {
	if last, err := lp.last(); last || err != nil {
		return noNext, err
	}
	if lp.isCells {
		return lp.cells[lp.index0+1], nil
	}
	return lp.ahead, nil
}

// attr is loop.name; ok is false for a name the loop does not have.
func (lp *loop) attr(name string) (v value.Value, ok bool, err error) {
	number := func(i int) (value.Value, bool, error) { return value.Int(int64(i)), true, nil }
	switch name {
	case "index0":
		return number(lp.index0)
	case "index":
		return number(lp.index0 + 1)
	case "first":
		return value.Bool(lp.index0 == 0), true, nil
	case "last":
		last, err := lp.last()
		return value.Bool(last), true, err
	case "length":
		n, err := lp.Len()
		return value.Int(int64(n)), true, err
	case "revindex":
		n, err := lp.Len()
		return value.Int(int64(n - lp.index0)), true, err
	case "revindex0":
		n, err := lp.Len()
		return value.Int(int64(n - lp.index0 - 1)), true, err
	case "previtem":
		return lp.previous(), true, nil
	case "nextitem":
		v, err := lp.nextItem()
		return v, true, err
	case "depth0":
		return number(lp.depth0)
	case "depth":
		return number(lp.depth0 + 1)
	case "cycle":
		return method("cycle", lp.cycle), true, nil
	case "changed":
		return method("changed", lp.isChanged), true, nil
	}
	return value.Value{}, false, nil
}

// cycle is loop.cycle(...): one of its arguments by the round's index.
func (lp *loop) cycle(_ *run, a *args) (value.Value, error) {
	if len(a.pos) == 0 {
		return value.Value{}, pyerr.New(pyerr.Type, "no items for cycling given")
	}
	return a.pos[lp.index0%len(a.pos)], nil
}

// isChanged is loop.changed(...): whether the arguments differ from those
// of the last call.
func (lp *loop) isChanged(r *run, a *args) (value.Value, error) {
	if lp.seen {
		same, err := value.Equal(&r.m, value.Tuple(lp.changed), value.Tuple(a.pos))
		if same || err != nil {
			return value.False, err
		}
	}
	lp.seen = true
	lp.changed = append([]value.Value(nil), a.pos...)
	return value.True, nil
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

// call is loop(seq) of a recursive loop.
func (lp *loop) call(r *run, a *args) (value.Value, error) {
	b, err := loopSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	if lp.recurse == nil {
		return value.Value{}, pyerr.New(pyerr.Type,
			"The loop must have the 'recursive' marker to be called recursively.")
	}
	return lp.recurse.call(r, b[0], lp.depth0+1)
}

var loopSignature = newSignature("LoopContext.__call__", 1, "iterable")
