package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// The attributes of the loop variable read ahead only as far as they must:
// first and index not at all, last by one, length of a generator to its
// end.

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
