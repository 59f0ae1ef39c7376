package admit

import (
	"container/list"
	"context"
	"sync"
	"time"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// QueueConfig bounds what runs and what waits.
type QueueConfig struct {
	// MaxInflight bounds running requests of the whole gateway; 0 does not.
	MaxInflight int
	// MaxInflightPerWorker bounds running requests of a model to this many per ready worker; 0 does not.
	MaxInflightPerWorker int
	// Limit bounds waiting requests of the whole gateway.
	Limit int
	// Timeout bounds the wait; 0 does not.
	Timeout time.Duration
}

// Queue lets requests in. Waiting ones of a model start in the order they came.
type Queue struct {
	cfg     QueueConfig
	waiting func(delta int)

	mu       sync.Mutex
	inflight int
	models   map[string]*line
	order    list.List // of *waiter, over all models
}

// line is one model's count and its bound at the last sight.
type line struct {
	inflight, bound int
}

type waiter struct {
	line  *line
	ready chan struct{}
}

// NewQueue makes an empty queue. waiting is told when the number of waiting requests changes.
func NewQueue(cfg QueueConfig, waiting func(delta int)) *Queue {
	return &Queue{cfg: cfg, waiting: waiting, models: map[string]*line{}}
}

// Enter waits for a place and returns the function that gives it back; it must be called once. workers is how many
// workers can serve the model now. Faults: OVERLOADED when the queue is full or the wait too long, CANCELLED,
// DEADLINE_EXCEEDED.
func (q *Queue) Enter(ctx context.Context, model string, workers int) (leave func(), err error) {
	if q.cfg.MaxInflight == 0 && q.cfg.MaxInflightPerWorker == 0 {
		return func() {}, nil
	}
	q.mu.Lock()
	l := q.models[model]
	if l == nil {
		l = &line{}
		q.models[model] = l
	}
	l.bound = q.cfg.MaxInflightPerWorker * max(workers, 1)
	leave = func() { q.leave(model, l) }
	if q.fits(l) && !q.ahead(l) {
		q.start(l)
		q.mu.Unlock()
		return leave, nil
	}
	if q.order.Len() >= q.cfg.Limit {
		q.mu.Unlock()
		return nil, fault.New(faultv1.Reason_REASON_OVERLOADED, "The queue is full; try again later.").
			WithRetryAfter(time.Second)
	}
	w := &waiter{line: l, ready: make(chan struct{})}
	at := q.order.PushBack(w)
	q.mu.Unlock()
	q.waiting(1)
	defer q.waiting(-1)
	if err := q.wait(ctx, w, at); err != nil {
		return nil, err
	}
	return leave, nil
}

// wait blocks until the waiter's turn. A turn that comes together with the end of the context is given back.
func (q *Queue) wait(ctx context.Context, w *waiter, at *list.Element) error {
	var late <-chan time.Time
	if q.cfg.Timeout > 0 {
		t := time.NewTimer(q.cfg.Timeout)
		defer t.Stop()
		late = t.C
	}
	var err error
	select {
	case <-w.ready:
		return nil
	case <-late:
		err = fault.New(faultv1.Reason_REASON_OVERLOADED, "The request waited too long for a place; try again later.").
			WithRetryAfter(time.Second)
	case <-ctx.Done():
		err = fault.From(ctx.Err())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-w.ready:
		q.end(w.line)
	default:
		q.order.Remove(at)
	}
	return err
}

// fits tells whether one more request may run.
func (q *Queue) fits(l *line) bool {
	return (q.cfg.MaxInflight == 0 || q.inflight < q.cfg.MaxInflight) &&
		(q.cfg.MaxInflightPerWorker == 0 || l.inflight < l.bound)
}

// ahead tells whether somebody waits for the same model.
func (q *Queue) ahead(l *line) bool {
	for e := q.order.Front(); e != nil; e = e.Next() {
		if w, ok := e.Value.(*waiter); ok && (w.line == l || q.cfg.MaxInflight > 0) {
			return true
		}
	}
	return false
}

func (q *Queue) start(l *line) {
	q.inflight++
	l.inflight++
}

// end gives a place back and lets waiting requests in.
func (q *Queue) end(l *line) {
	q.inflight--
	l.inflight--
	for e := q.order.Front(); e != nil; {
		next := e.Next()
		if w, ok := e.Value.(*waiter); ok && q.fits(w.line) {
			q.order.Remove(e)
			q.start(w.line)
			close(w.ready)
		}
		e = next
	}
}

func (q *Queue) leave(model string, l *line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(l)
	if l.inflight == 0 && !q.ahead(l) && q.models[model] == l {
		delete(q.models, model)
	}
}

// Counts is how many requests run and wait.
func (q *Queue) Counts() (inflight, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.inflight, q.order.Len()
}
