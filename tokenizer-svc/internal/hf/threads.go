package hf

import (
	"runtime"
	"sync"
)

// Threads bounds how many OS threads hold fastokens state.
//
// Most calls run on the thread they came on: the first threads that ask are admitted for good, and Go keeps reusing
// its few busy threads. Once the bound is reached, calls on other threads are handed to workers locked to threads of
// their own, which costs 10 to 50 µs and keeps memory bounded whatever the scheduler does.
type Threads struct {
	workers int
	jobs    chan job
	done    chan struct{}
	start   sync.Once
	stop    sync.Once
	group   sync.WaitGroup
}

type job struct {
	engine *Engine
	dst    []uint32
	text   []byte
	mode   int
	reply  chan<- reply
}

type reply struct {
	ids []uint32
	err error
}

// NewThreads bounds the process to limit threads with fastokens state (at least 2): a quarter are workers, the others
// are admitted as they come. The bound is the process's: the last call sets it.
func NewThreads(limit int) *Threads {
	workers := max(1, limit/4)
	limitThreads(max(1, limit-workers))
	return &Threads{workers: workers, jobs: make(chan job), done: make(chan struct{})}
}

// run encodes on a worker. Workers start at the first refusal: most processes never need them.
func (t *Threads) run(e *Engine, dst []uint32, text []byte, mode int) ([]uint32, error) {
	t.start.Do(func() {
		for range t.workers {
			t.group.Go(t.work)
		}
	})
	answer := make(chan reply, 1)
	select {
	case t.jobs <- job{engine: e, dst: dst, text: text, mode: mode, reply: answer}:
	case <-t.done:
		return dst, ErrClosed
	}
	r := <-answer
	return r.ids, r.err
}

// work owns its thread until Close; ending while locked ends the thread, which frees the engine's state with it.
func (t *Threads) work() {
	runtime.LockOSThread()
	for {
		select {
		case j := <-t.jobs:
			ids, err := j.engine.encode(j.dst, j.text, j.mode)
			j.reply <- reply{ids: ids, err: err}
		case <-t.done:
			return
		}
	}
}

// Close ends the workers. Calls that run finish; later calls that need a worker get ErrClosed. A second Close waits
// too.
func (t *Threads) Close() {
	// A run that comes after this starts no worker.
	t.start.Do(func() {})
	t.stop.Do(func() { close(t.done) })
	t.group.Wait()
}
