// Package engine simulates the core of one vLLM data-parallel rank: its block pool with prefix caching, its scheduler
// with chunked prefill and preemption, and the time that its steps take. What it computes is not a model: every job
// brings its output along, and the engine decides when each token of it exists and which blocks are cached meanwhile.
//
// A step has three parts. begin plans it under the lock: aborted jobs leave, running sequences get their tokens in
// order of admission, the head of the waiting queue enters while budget, sequence limit and blocks allow, and blocks
// that the step will fill are cached and announced now, before they are computed, as vLLM does. Then the step takes
// its time, without the lock. end commits it under the lock again: tokens come to be, finished sequences release their
// blocks, tail first.
//
// Two consequences are visible from outside. Equal prompts that arrive together share blocks at once, because the
// first one's count as cached in the very step that computes them. And a prompt that is cached whole and ends at a
// block's end computes its last block again, since its last token must be computed: the pool then holds that block
// twice, and says so twice.
//
// Events of a step go out when it has ended, before its tokens. What happens to the cache in between, such as a reset,
// belongs to the next step's batch; an idle engine announces nothing.
package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/kvevent"
)

// ErrBusy is returned when the waiting queue has reached MaxQueued.
var ErrBusy = errors.New("waiting queue is full")

// Config is one rank's size and speed. All fields but MaxQueued, Speedup and Rank must be positive.
type Config struct {
	Rank             int
	BlockSize        int // tokens
	Blocks           int // usable ones: vLLM's num_gpu_blocks counts a null block more
	MaxNumSeqs       int
	MaxBatchedTokens int
	MaxQueued        int // waiting jobs before ErrBusy; 0 is no limit
	PrefixCaching    bool
	StrictLRU        bool // vLLM 0.23: a released block without contents waits its turn like the others
	Priority         bool // --scheduling-policy priority
	Hybrid           Hybrid
	DropLastHit      bool // EAGLE, MTP: the last block of a hit is computed again
	Profile          Profile
	Speedup          float64 // divides all step times; 0 makes them nothing
}

// Sink receives what one step did to the cache; it must not keep the slices.
type Sink interface{ Publish(b *kvevent.Batch) }

// Observer hears of steps and of ended jobs, on the engine's goroutine.
type Observer interface {
	Step(StepInfo)
	Ended(JobInfo)
}

// Engine runs jobs. Run owns the scheduler; the other methods may be called by any goroutine.
type Engine struct {
	cfg  Config
	sink Sink
	obs  Observer

	mu      sync.Mutex
	sched   scheduler
	stats   Stats
	mode    mode
	ready   int // pending events that may go out: those of the computed step, or those before an abort
	aborts  []*Seq
	idle    []chan struct{} // closed when nothing runs
	wake    chan struct{}   // capacity 1
	endings []*Seq
}

// New makes an engine; sink and obs may be nil.
func New(cfg Config, sink Sink, obs Observer) *Engine {
	e := &Engine{cfg: cfg, sink: sink, obs: obs, wake: make(chan struct{}, 1)}
	e.sched = scheduler{cfg: &e.cfg, pool: newPool(cfg.Blocks, cfg.StrictLRU), stats: &e.stats}
	return e
}

// Submit queues jobs. A job whose prompt and output need more blocks than there are would wait for ever, so callers
// check Fits first.
func (e *Engine) Submit(seqs ...*Seq) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cfg.MaxQueued > 0 && len(e.sched.waiting) >= e.cfg.MaxQueued {
		e.stats.Rejected++
		return ErrBusy
	}
	now := time.Now()
	for _, q := range seqs {
		q.queued = now
		e.sched.add(q)
	}
	e.poke()
	return nil
}

// Fits tells whether a sequence of so many tokens can ever run.
func (e *Engine) Fits(tokens int) bool {
	lanes := make([]lane, e.cfg.Hybrid.SlidingGroups)
	return (tokens+e.cfg.BlockSize-1)/e.cfg.BlockSize+e.sched.laneNeed(lanes, tokens) <= e.cfg.Blocks
}

// Abort ends jobs with the given final state; those that ended already stay as they are.
func (e *Engine) Abort(state State, seqs ...*Seq) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.abort(state, seqs)
}

// abort needs mu. The state is final at once; blocks are given back before the next step is planned.
func (e *Engine) abort(state State, seqs []*Seq) {
	for _, q := range seqs {
		if q.Ended() {
			continue
		}
		q.state.Store(int32(state))
		q.notify()
		e.aborts = append(e.aborts, q)
	}
	e.poke()
}

// AbortMatching aborts the jobs that match, and returns their number.
func (e *Engine) AbortMatching(match func(id string) bool) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	var hit []*Seq
	for _, list := range [...][]*Seq{e.sched.running, e.sched.waiting} {
		for _, q := range list {
			if !q.Ended() && match(q.ID) {
				hit = append(hit, q)
			}
		}
	}
	e.abort(Aborted, hit)
	return len(hit)
}

// poke wakes Run; the caller holds mu or does not care.
func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run computes steps until ctx ends; then all jobs are aborted.
func (e *Engine) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	var due time.Time // end of the last step; the next begins there if there was no pause
	for ctx.Err() == nil {
		load, busy := e.begin()
		if !busy {
			e.publish()
			select {
			case <-ctx.Done():
			case <-e.wake:
			}
			continue
		}
		now := time.Now()
		if due.Before(now.Add(-maxLag)) {
			due = now
		}
		step := e.cfg.Profile.Duration(load, e.cfg.Speedup)
		due = due.Add(step)
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
		}
		e.end(load, step)
	}
	e.AbortMatching(func(string) bool { return true })
	e.begin()
}

// maxLag is how much lateness of timers the next steps may make up for; a longer pause was idleness.
const maxLag = 2 * time.Millisecond

// begin plans a step; busy is false if there is nothing to compute.
func (e *Engine) begin() (load Load, busy bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range e.aborts {
		e.drop(q)
	}
	e.aborts = e.aborts[:0]
	if e.mode.frozen || e.mode.level != awake {
		e.settle()
		return Load{}, false
	}
	load = e.sched.plan(e.mode.level == awake && !e.mode.paused)
	e.settle()
	if len(e.sched.step) == 0 {
		return load, false
	}
	e.ready = len(e.sched.pool.events) // a reset while the step is computed is news of the next one
	return load, true
}

// drop takes an aborted job out of whichever list holds it.
func (e *Engine) drop(q *Seq) {
	e.ready = len(e.sched.pool.events)
	for i, w := range e.sched.waiting {
		if w == q {
			e.sched.waiting = append(e.sched.waiting[:i], e.sched.waiting[i+1:]...)
			break
		}
	}
	e.sched.remove(q)
	e.endings = append(e.endings, q)
}

// settle tells those who wait for it that nothing runs.
func (e *Engine) settle() {
	if len(e.sched.running) > 0 {
		return
	}
	for _, c := range e.idle {
		close(c)
	}
	e.idle = nil
}

// end commits the step. Events go out before tokens, as a subscriber of a real worker mostly sees them.
func (e *Engine) end(load Load, took time.Duration) {
	e.mu.Lock()
	now := time.Now()
	told := make([]*Seq, 0, len(e.sched.step))
	for _, w := range e.sched.step {
		told = append(told, w.seq)
	}
	var made int
	if !e.mode.frozen {
		made = e.sched.commit(now)
	}
	e.stats.GenerationTokens += uint64(made)
	e.mu.Unlock()
	e.publish()
	if e.obs != nil {
		e.obs.Step(StepInfo{Load: load, Produced: made, Took: took})
	}
	for _, q := range told {
		if q.State() == Finished && e.obs != nil {
			e.obs.Ended(q.info(now))
		}
		q.notify()
	}
}

// publish sends pending events if a step or an abort asked for it; a reset of an idle engine stays silent, as vLLM's.
func (e *Engine) publish() {
	e.mu.Lock()
	var events []kvevent.Event
	if n := min(e.ready, len(e.sched.pool.events)); n > 0 {
		events = e.sched.pool.events[:n:n]
		e.sched.pool.events = append([]kvevent.Event(nil), e.sched.pool.events[n:]...)
	}
	e.ready = 0
	ended := e.endings
	e.endings = nil
	e.mu.Unlock()
	if len(events) > 0 && e.sink != nil {
		e.sink.Publish(&kvevent.Batch{
			Timestamp: float64(time.Now().UnixNano()) / 1e9, Events: events, Rank: e.cfg.Rank,
		})
	}
	if e.obs != nil {
		for _, q := range ended {
			e.obs.Ended(q.info(time.Now()))
		}
	}
}
