package eval

import (
	"time"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// One run serves one render at a time. The output buffer is the caller's
// own; macros and set blocks use its end as scratch space.

// run is the state of one render.
type run struct {
	m       limit.Meter
	out     []byte
	globals []value.Value
	now     func() time.Time
	// autoescape is set within an autoescape block.
	autoescape bool
	free       []*frame
	argFree    []*args
	printer    value.Printer // of tojson
	stack      []value.Value // arguments of calls under way
	seed       uint64        // of random and lipsum
}

// keepCells bounds what a finished render leaves for the next one.
const keepCells = 1024

// release puts r back without what it held of the render.
func (p *Program) release(r *run) {
	clear(r.globals)
	if cap(r.stack) > keepCells || len(r.free) > keepCells {
		r.stack, r.free = nil, nil
	}
	clear(r.stack[:cap(r.stack)])
	r.stack = r.stack[:0]
	r.out, r.now, r.autoescape = nil, nil, false
	r.m = limit.Meter{}
	p.runs.Put(r)
}

// freeSlots is how many slots a step pays for.
const freeSlots = 16

// newFrame gives a record for fn. Records of functions without closures are
// used again.
func (r *run) newFrame(fn *function, up *frame) (*frame, error) {
	n := len(fn.slots)
	if n > freeSlots {
		if err := r.m.Work(n / freeSlots); err != nil {
			return nil, err
		}
	}
	if k := len(r.free) - 1; k >= 0 && !fn.inner && n <= keepCells {
		f := r.free[k]
		r.free = r.free[:k]
		if cap(f.slots) < n {
			f.slots = make([]value.Value, n)
		}
		f.slots = f.slots[:n]
		f.up = up
		return f, nil
	}
	if err := r.m.Bytes(objectBytes + n*cellBytes); err != nil {
		return nil, err
	}
	return &frame{r: r, up: up, slots: make([]value.Value, n, max(n, 8))}, nil
}

// endFrame gives a record back.
func (r *run) endFrame(fn *function, f *frame) {
	if !fn.inner && len(f.slots) <= keepCells {
		clear(f.slots)
		f.up = nil
		r.free = append(r.free, f)
	}
}

// emit appends text to the output.
func (r *run) emit(s string) error {
	if err := r.m.Bytes(len(s)); err != nil {
		return err
	}
	r.out = append(r.out, s...)
	return nil
}

// cut takes the output from start on as a string of its own.
func (r *run) cut(start int) string {
	s := string(r.out[start:])
	r.out = r.out[:start]
	return s
}
