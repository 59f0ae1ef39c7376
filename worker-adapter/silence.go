package workeradapter

import (
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

const (
	// silenceAfter is how long the proof must have stood: an event comes with its step, and after a standstill of the
	// worker or of this machine the counters can be read before the events that lie in the socket.
	silenceAfter = 2 * time.Second
	// silencePause is above any pause between two readings of a worker that answers: a longer one was a standstill.
	silencePause = 2 * silenceAfter
	// silenceMargin allows for counters that were read in the middle of steps.
	silenceMargin = 2
)

// silence finds a worker that computes and does not publish. A request whose computed tokens stay below one block
// stores nothing, and cache hits publish nothing; so silence is proven only when the tokens computed since the last
// event are more than all requests together could have computed without filling a block.
type silence struct {
	mu    sync.Mutex
	heard time.Time
	begin vllm.RankMetrics
	// since is when the first of the readings that prove it was taken, zero without a proof; at is the last reading.
	since, at time.Time
	begun     bool
}

// reading is a rank's counters and when they were read.
type reading struct {
	vllm.RankMetrics
	at time.Time
	// blockTokens is the worker's block size, 0 while unknown: then nothing is proven.
	blockTokens uint32
}

// look takes a reading, and when the last event was heard.
func (s *silence) look(heard time.Time, r reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun || heard != s.heard || r.PromptTokens < s.begin.PromptTokens {
		s.begun, s.heard, s.begin, s.since = true, heard, r.RankMetrics, time.Time{}
	}
	paused := r.at.Sub(s.at) > silencePause
	s.at = r.at
	switch {
	case !s.proven(r):
		s.since = time.Time{}
	case s.since.IsZero() || paused:
		s.since = r.at
	}
}

// proven is true when an event must have come since the last one. The caller holds mu.
func (s *silence) proven(r reading) bool {
	b := s.begin
	computed := r.PromptTokens - b.PromptTokens - (r.CachedTokens - b.CachedTokens) + r.OutputTokens - b.OutputTokens
	requests := r.Finished - b.Finished + float64(r.Running+r.Waiting+b.Running+b.Waiting) + 1
	return r.blockTokens > 0 && computed > silenceMargin*requests*float64(r.blockTokens)
}

// silent is true when an event must have come and did not.
func (s *silence) silent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.since.IsZero() && s.at.Sub(s.since) >= silenceAfter
}
