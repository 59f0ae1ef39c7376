package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// loop(...) runs a recursive loop again, in a record of its own, one level
// deeper.

// recursion lets a loop object call its loop again.
type recursion struct {
	l  *forLoop
	up *frame
}

// runRecursive runs a loop whose body may call loop(...): the loop has a
// record per call.
func (l *forLoop) runRecursive(f *frame) (control, error) {
	seq, err := l.iter(f)
	if err == nil {
		rec := &recursion{l: l, up: f}
		err = rec.print(f.r, seq, 0)
	}
	return goOn, at(err, l.node)
}

// print runs the loop over seq in a record of its own and prints its text.
func (rec *recursion) print(r *run, seq value.Value, depth int) error {
	if err := r.m.Enter(); err != nil {
		return err
	}
	defer r.m.Leave()
	f, err := r.newFrame(rec.l.fn, rec.up)
	if err != nil {
		return err
	}
	_, err = rec.l.rounds(f, seq, rec, depth)
	r.endFrame(rec.l.fn, f)
	return err
}

// call is loop(seq): the text as a value.
func (rec *recursion) call(r *run, seq value.Value, depth int) (value.Value, error) {
	start := len(r.out)
	err := rec.print(r, seq, depth)
	text := r.cut(start)
	return value.Str(text).WithMarkup(r.autoescape), err
}
