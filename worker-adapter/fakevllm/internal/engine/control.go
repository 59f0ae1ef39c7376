package engine

import "context"

// level is vLLM's sleep state.
type level int

// awake and the two depths of sleep: weights offloaded, everything discarded.
const (
	awake level = iota
	offloaded
	discarded
)

// mode holds the switches that stop the engine from computing.
type mode struct {
	level  level
	paused bool
	frozen bool
}

// ResetCache forgets all cached blocks; false if sequences run and running is not set. With running set they lose
// their blocks and compute everything again. AllBlocksCleared goes out with the next step, not now.
func (e *Engine) ResetCache(running bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reset(running)
}

// reset does ResetCache's work under the lock. Aborted jobs give their blocks back first.
func (e *Engine) reset(running bool) bool {
	for _, q := range e.aborts {
		e.drop(q)
	}
	e.aborts = e.aborts[:0]
	for running && len(e.sched.running) > 0 {
		e.sched.preempt(e.sched.running[len(e.sched.running)-1])
	}
	return e.sched.pool.reset()
}

// Sleep stops computing and forgets the cache; jobs wait without an error. Running jobs are aborted.
func (e *Engine) Sleep(depth int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.abort(Aborted, append(append([]*Seq(nil), e.sched.running...), e.sched.waiting...))
	if depth > 0 {
		e.reset(true)
	}
	e.mode.level = level(min(max(depth, 1), int(discarded)))
}

// Wake ends Sleep.
func (e *Engine) Wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mode.level = awake
	e.poke()
}

// SleepLevel is 0 when awake, else 1 or 2.
func (e *Engine) SleepLevel() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int(e.mode.level)
}

// Pause stops admission. With abort, running jobs end with state Aborted; otherwise they are waited for until ctx
// ends. With clearCache the cache is forgotten afterwards.
func (e *Engine) Pause(ctx context.Context, abort, clearCache bool) error {
	e.mu.Lock()
	e.mode.paused = true
	if abort {
		e.abort(Aborted, append(append([]*Seq(nil), e.sched.running...), e.sched.waiting...))
	}
	done := make(chan struct{})
	e.idle = append(e.idle, done)
	e.poke()
	e.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-done:
	}
	if clearCache {
		e.ResetCache(true)
	}
	return nil
}

// Resume ends Pause.
func (e *Engine) Resume() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mode.paused = false
	e.poke()
}

// Paused tells whether Pause is in force.
func (e *Engine) Paused() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mode.paused
}

// Freeze makes the engine hang in the middle of whatever it does, or go on.
func (e *Engine) Freeze(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mode.frozen = on
	e.poke()
}

// Restart aborts everything and begins with an empty cache and nothing to announce, as a new process does.
func (e *Engine) Restart() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.abort(Aborted, append(append([]*Seq(nil), e.sched.running...), e.sched.waiting...))
	for _, q := range e.aborts {
		e.drop(q)
	}
	e.aborts = e.aborts[:0]
	e.sched.pool = newPool(e.cfg.Blocks, e.cfg.StrictLRU)
	e.sched.step = nil
	e.stats = Stats{}
	e.mode = mode{frozen: e.mode.frozen}
}
