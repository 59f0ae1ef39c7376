package dispatch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// errStalled ends an attempt at a worker that stands still.
var errStalled = errors.New("the worker stands still")

// stalls ends attempts that wait for a worker of which its adapter hears nothing any more. The scheduler names such
// workers; an attempt there that gets no byte from one reading of the list to the next is given up: before its first
// byte it goes to another worker, a begun stream ends as a broken one does. What still flows is left alone, because the
// adapter may be wrong. The zero value is ready.
type stalls struct {
	mu      sync.Mutex
	running map[string]map[*watch]struct{} // by worker
	reading uint64
}

// watch is an attempt as stalls sees it.
type watch struct {
	heard atomic.Uint32 // reads that came back

	stalls *stalls
	worker string
	cancel context.CancelCauseFunc
	// was is heard at a reading that named the worker, guarded by stalls.mu.
	was, reading uint64
}

// begin watches a lease's attempt until it is settled. The context that it returns ends with the request, or with the
// worker.
func (s *stalls) begin(ctx context.Context, l *Lease) context.Context {
	if l.settled {
		return ctx
	}
	w := &l.watch
	ctx, w.cancel = context.WithCancelCause(ctx)
	w.stalls, w.worker = s, l.Route.GetTarget().GetWorkerId()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = map[string]map[*watch]struct{}{}
	}
	at := s.running[w.worker]
	if at == nil {
		at = map[*watch]struct{}{}
		s.running[w.worker] = at
	}
	at[w] = struct{}{}
	return ctx
}

// end lets go of the attempt; its connection has been given back by then.
func (w *watch) end() {
	if w.stalls == nil {
		return
	}
	w.stalls.mu.Lock()
	at := w.stalls.running[w.worker]
	if delete(at, w); len(at) == 0 {
		delete(w.stalls.running, w.worker)
	}
	w.stalls.mu.Unlock()
	w.cancel(nil)
}

// Stalled takes a reading of the workers that stand still, and of those that rest. At the latter an answer that has begun is
// left alone: a paused vLLM goes on with it.
func (d *Dispatcher) Stalled(stalled, resting []string) {
	s := &d.stalls
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading++
	s.read(stalled, func(uint64) bool { return true })
	s.read(resting, func(heard uint64) bool { return heard == 0 })
}

// read cuts the attempts at workers that got nothing since the last reading named them too. The lock is held.
func (s *stalls) read(workers []string, mayCut func(heard uint64) bool) {
	for _, worker := range workers {
		for w := range s.running[worker] {
			heard := uint64(w.heard.Load())
			if w.reading > 0 && w.reading == s.reading-1 && w.was == heard && mayCut(heard) {
				w.cancel(errStalled)
			}
			w.was, w.reading = heard, s.reading
		}
	}
}

// cut tells whether an attempt's context ended because of its worker, not of its client.
func cut(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errStalled) }
