package prompt

import (
	"encoding/binary"
	"sync"
	"time"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/gateway/internal/fleet"
	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
)

// bytesPerToken is the usual length of a token of English text; it only sizes estimates.
const bytesPerToken = 4

// unitBytes is the size of a byte unit: 16 tokens' worth, and the size of kvblock's ids of one unit.
const unitBytes = kvblock.UnitTokens * bytesPerToken

// maxFallbackUnits bounds the hashes of a fallback: 1 MiB of conversation.
const maxFallbackUnits = 1 << 14

// fallback hashes the bytes of the conversation's prefix. The chain has a namespace of its own, so that it never meets
// hashes of tokens; it only brings equal conversations to the worker that served them last.
func fallback(q *openai.Request, m fleet.Model, reason string) *Prompt {
	c := byteChain{root: bytesRoot(m), salt: kvblock.SaltExtra(q.CacheSalt)}
	c.prev = c.root
	size := 0
	add := func(v jsontext.Value) {
		text := q.Text(v)
		size += len(text)
		c.write(text)
		c.write([]byte{0x1e})
	}
	switch q.Shape {
	case openai.ShapeCompletion:
		add(q.Prompt.Value)
	case openai.ShapeChat:
		add(q.Template.Tools)
		add(q.Template.Kwargs)
		for _, v := range q.Conversation {
			add(v)
		}
	case openai.ShapeMessages, openai.ShapeResponses:
		for _, v := range q.Conversation {
			add(v)
		}
	default:
		size = len(q.Doc)
	}
	tokens := size/bytesPerToken + 1
	if q.Truncates(tokens) {
		tokens = max(1, q.Keep)
	}
	return &Prompt{
		Hashes: c.hashes, Tokens: uint32(tokens),
		Certainty: schedulerv1.Certainty_CERTAINTY_FALLBACK, Reason: reason,
	}
}

// bytesRoot begins the chains over bytes.
func bytesRoot(m fleet.Model) uint64 {
	return kvblock.Namespace{Model: m.Base + "\x00bytes", LoRA: m.LoRA}.Root()
}

// byteChain is a chain of units of 64 bytes.
type byteChain struct {
	root, prev uint64
	salt       []byte
	unit       [unitBytes]byte
	n          int
	hashes     []uint64
}

func (c *byteChain) write(p []byte) {
	for len(p) > 0 && len(c.hashes) < maxFallbackUnits {
		n := copy(c.unit[c.n:], p)
		c.n += n
		p = p[n:]
		if c.n == unitBytes {
			c.next()
		}
	}
}

// next hashes a full unit.
func (c *byteChain) next() {
	var ids [kvblock.UnitTokens]uint32
	for i := range ids {
		ids[i] = binary.LittleEndian.Uint32(c.unit[i*bytesPerToken:])
	}
	c.prev = kvblock.Next(c.root, c.prev, ids[:], c.salt)
	c.salt = nil
	c.hashes = append(c.hashes, c.prev)
	c.n = 0
}

// Preparing that was late this many times, one after another, rests: the budget is not added to every request. Every restFor
// one request finds out whether it is over. Requests that were under way together count once, or a single stall of the machine
// would make all their successors guess.
const (
	restAfter = 3
	restFor   = 500 * time.Millisecond
	maxRests  = 4096
)

// rests remembers which models were late.
type rests struct {
	mu     sync.Mutex
	models map[string]*rest
}

type rest struct {
	late  int
	last  time.Time // when the last one of late was given up
	until time.Time // when the next request may find out
}

func newRests() *rests { return &rests{models: map[string]*rest{}} }

// now tells whether the model's preparing rests, for this request.
func (r *rests) now(model string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.models[model]
	if m == nil || m.late < restAfter {
		return false
	}
	now := time.Now()
	if now.Before(m.until) {
		return true
	}
	m.until = now.Add(restFor) // also for one whose client leaves before anything is known
	return false
}

// note counts lateness in a row, of preparing that was begun after the last one was given up; being in time once forgets it.
func (r *rests) note(model string, late bool, begun time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !late {
		delete(r.models, model)
		return
	}
	m := r.models[model]
	if m == nil && len(r.models) < maxRests {
		m = &rest{}
		r.models[model] = m
	}
	if m == nil || begun.Before(m.last) {
		return
	}
	m.last = time.Now()
	if m.late++; m.late >= restAfter {
		m.until = m.last.Add(restFor)
	}
}
