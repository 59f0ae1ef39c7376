package fleet

import (
	"sync"
	"sync/atomic"
)

// Withheld learns whether a worker computes the last block of every hit again. vLLM does so with speculation that reads the
// model's hidden states (EAGLE, MTP and their like), and tells nobody: only its cached tokens show it. The zero value
// believes that hits are whole.
type Withheld struct {
	blocks atomic.Int32 // 0 or 1; every decision reads it for every target
	mu     sync.Mutex
	votes  int // in a row, for the other number; mu guards it and writes of blocks
}

// withheldVotes in a row change what is believed. Evicted or late blocks make single hits differ by one block, hardly so
// many without a hit between them that is as predicted.
const withheldVotes = 8

// Blocks is how many blocks a hit is shorter than what the worker holds of the prompt.
func (w *Withheld) Blocks() int { return int(w.blocks.Load()) }

// Observe takes the tokens of a prompt that the worker held, in whole blocks and as far as any hit may go, and those it
// served from its cache. It reports whether that changed the belief.
func (w *Withheld) Observe(held, served, block int) (changed bool) {
	if held < block || block == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	blocks := w.Blocks()
	switch held - served {
	case blocks * block:
		w.votes = 0
	case (1 - blocks) * block:
		w.votes++
	}
	if w.votes < withheldVotes {
		return false
	}
	w.blocks.Store(int32(1 - blocks))
	w.votes = 0
	return true
}
