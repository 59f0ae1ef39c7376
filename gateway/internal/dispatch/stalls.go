package dispatch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// errStalled ends an attempt at a worker that stands still.
var errStalled = errors.New("the worker stands still")

// stalls ends attempts that wait for a worker that does not answer its adapter, or that sleeps. The scheduler names such
// workers; an attempt there that waits for the same byte at two readings of the list is given up: before its first byte
// it goes to another worker, a begun answer ends as a broken one does. What still flows is left alone, because the
// adapter may be wrong, and so is what waits for its client. The zero value is ready.
type stalls struct {
	mu      sync.Mutex
	running map[string]map[*watch]struct{} // by worker
	reading uint64
}

// watch is an attempt as stalls sees it.
type watch struct {
	// turns counts up when a wait for the worker begins and when it ends: it is odd while the attempt waits.
	turns atomic.Uint32

	stalls *stalls
	worker string
	cancel context.CancelCauseFunc
	// was is turns at the last reading that named the worker. Both are guarded by stalls.mu.
	was     uint32
	reading uint64
}

// turn begins or ends a wait for the worker.
func (w *watch) turn() { w.turns.Add(1) }

// firstRead is turns while an attempt that has the head of its answer waits for the first byte of the body.
const firstRead = 3

// begin watches a lease's attempt until it is settled. The context that it returns ends with the request, or with the
// worker.
func (s *stalls) begin(ctx context.Context, l *Lease) context.Context {
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
// left alone: a paused vLLM goes on with it, or will.
func (d *Dispatcher) Stalled(stalled, resting []string) {
	s := &d.stalls
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading++
	s.read(stalled, func(uint32) bool { return true })
	s.read(resting, func(turns uint32) bool { return turns <= firstRead })
}

// read cuts the attempts at workers that wait as they did when the last reading named them too. The lock is held.
func (s *stalls) read(workers []string, mayCut func(turns uint32) bool) {
	for _, worker := range workers {
		for w := range s.running[worker] {
			turns := w.turns.Load()
			if w.reading > 0 && w.reading == s.reading-1 && w.was == turns && turns%2 == 1 && mayCut(turns) {
				w.cancel(errStalled)
			}
			w.was, w.reading = turns, s.reading
		}
	}
}

// cut tells whether an attempt's context ended because of its worker, not of its client.
func cut(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errStalled) }
