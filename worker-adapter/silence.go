package workeradapter

import (
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

const (
	// silenceAfter is how long nothing must have been heard: events come with the step, not after it.
	silenceAfter = 2 * time.Second
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
	now   vllm.RankMetrics
	since time.Time
	at    time.Time
}

// look takes a reading: when the last event was heard, the rank's counters, and when they were read.
func (s *silence) look(heard time.Time, m vllm.RankMetrics, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() || heard != s.heard || m.PromptTokens < s.begin.PromptTokens {
		s.heard, s.begin, s.since = heard, m, at
	}
	s.now, s.at = m, at
}

// silent is true when an event must have come and did not.
func (s *silence) silent(blockTokens int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if blockTokens == 0 || s.at.Sub(s.since) < silenceAfter {
		return false
	}
	b, n := s.begin, s.now
	computed := n.PromptTokens - b.PromptTokens - (n.CachedTokens - b.CachedTokens) + n.OutputTokens - b.OutputTokens
	requests := n.Finished - b.Finished + float64(n.Running+n.Waiting+b.Running+b.Waiting) + 1
	return computed > silenceMargin*requests*float64(blockTokens)
}
