package engine

import (
	"sync/atomic"
	"time"
)

// State is where a sequence is in its life.
type State int32

// The states; Finished, Aborted and Failed are final.
const (
	Waiting State = iota
	Running
	Finished
	Aborted // by /abort_requests, /pause?mode=abort or a restart: the client gets finish_reason "abort"
	Dropped // the client has gone: nobody is told
)

// Job is what a caller asks of the engine. Output is what the model will say, end-of-sequence token included: the
// simulated model is a function of the prompt, so the text is known before the first step.
type Job struct {
	ID     string
	Prompt []uint32
	Output []uint32 // empty for pooling requests, which end with their prefill
	Scope  Scope
	// SkipRead computes the whole prompt though it may be cached, as vLLM does for prompt_logprobs and pooling.
	SkipRead bool
	// ReportFull announces the cached prefix again (vllm_xargs.kv_cache_report_mode = "full").
	ReportFull bool
	Session    string
	Cut        bool // Output ends by a limit, not by itself: for the metrics
	Priority   int  // lower runs first under the priority policy
	// Notify gets a token (without blocking) whenever Produced or State changed. Sequences may share one channel.
	Notify chan struct{}
}

// Seq is a job in the engine. The exported methods may be called by any goroutine; the rest belongs to the engine.
type Seq struct {
	Job
	tokens   []uint32 // prompt and what was generated
	chain    []Hash
	blocks   []int32
	lanes    []lane // blocks in a hybrid model's sliding groups
	computed int    // tokens whose KV is in blocks
	stored   int    // leading blocks that are in the cache
	arrival  uint64
	admitted bool

	produced   atomic.Int32
	state      atomic.Int32
	cachedHits atomic.Int32
	queued     time.Time
	scheduled  time.Time
	first      time.Time
	preempted  int
}

// NewSeq prepares a job outside the engine's lock: the hash chain of a long prompt takes a while.
func NewSeq(job Job, blockSize int) *Seq {
	s := &Seq{Job: job}
	s.tokens = make([]uint32, len(job.Prompt), len(job.Prompt)+len(job.Output))
	copy(s.tokens, job.Prompt)
	s.chain = make([]Hash, 0, cap(s.tokens)/blockSize)
	s.chain = appendHashes(s.chain, s.tokens, blockSize, &s.Scope)
	s.cachedHits.Store(-1)
	return s
}

// Produced is how many tokens of Output exist by now.
func (s *Seq) Produced() int { return int(s.produced.Load()) }

// State is the sequence's state now. Read it before Produced: a final state is set after the last token.
func (s *Seq) State() State { return State(s.state.Load()) }

// Cached is the number of prompt tokens that were in the cache at first admission; 0 before it.
func (s *Seq) Cached() int { return max(0, int(s.cachedHits.Load())) }

// Ended tells whether the state is final.
func (s *Seq) Ended() bool { return s.State() >= Finished }

// notify wakes whoever waits on the job's channel; a token that nobody has taken yet is enough.
func (s *Seq) notify() {
	if s.Notify == nil {
		return
	}
	select {
	case s.Notify <- struct{}{}:
	default:
	}
}
