// Package model is one loaded tokenizer: a reference engine, a fast engine where it is proven equal, and a cache of
// text segments where cutting is proven exact.
//
// Proof is by comparison. At load the probes are encoded in both ways; one difference and the faster way is not used.
// While serving, a sample of requests is encoded again by the reference, off the request's path; the first difference
// turns the fast engine and the cache off for good and is counted.
package model

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/segment"
)

// Engine is a tokenizer engine as a model uses it. It is safe for concurrent use until Close.
type Engine interface {
	// AppendIDs appends the ids of text; addSpecial adds what the post-processor adds.
	AppendIDs(dst []uint32, text []byte, addSpecial bool) ([]uint32, error)
	// AppendText appends the text of ids, skipping ids it does not know.
	AppendText(dst []byte, ids []uint32, skipSpecial bool) ([]byte, error)
	// Close frees the engine; no call may run.
	Close()
}

// Parts are what a model is made of. The model owns the engines and closes them.
type Parts struct {
	Name      string
	Reference Engine
	// Fast is nil where the fast engine cannot load this tokenizer; FastRefused says why.
	Fast        Engine
	FastRefused string
	Definition  *definition.Definition
	// Vocabulary is the number of entries, added tokens included.
	Vocabulary int
	// Cache is shared by all models; nil turns segment caching off.
	Cache *segment.Cache
	// Remote says that the reference is the worker itself: there is nothing to compare it with, its vocabulary is not
	// known, and it takes no time of this machine.
	Remote bool
	// Owner tells this load's entries in Cache from all others.
	Owner uint64
}

// minPieceBytes keeps short pieces (a role's name, a line end) together with the text after them: below it, looking
// a piece up costs as much as the fast engine.
const minPieceBytes = 128

// Model encodes and decodes. It is safe for concurrent use between New and the release of the last reference.
type Model struct {
	name       string
	reference  Engine
	fast       Engine
	vocabulary int
	limit      uint32
	remote     bool
	cache      *segment.Cache
	owner      uint64
	cutter     *segment.Cutter
	affix      affix

	// active is nil once an audit has found a difference: the reference alone is used.
	active      atomic.Pointer[Engine]
	fastRefused atomic.Pointer[string]
	cutRefused  string
	refs        atomic.Int64
	requests    atomic.Uint64
	stats       Stats
}

// Stats counts bytes of text through the segment cache.
type Stats struct {
	HitBytes, MissBytes atomic.Uint64
}

// New checks the parts against each other and returns the model with one reference held. On error the engines are
// closed.
func New(p Parts) (*Model, error) {
	m := &Model{
		name: p.Name, reference: p.Reference, fast: p.Fast, vocabulary: p.Vocabulary, cache: p.Cache, owner: p.Owner,
		limit: limitOf(p),
	}
	m.refs.Store(1)
	m.fastRefused.Store(&p.FastRefused)
	if p.Remote {
		m.remote, m.limit, m.cutRefused = true, math.MaxUint32, p.FastRefused
		return m, nil
	}
	if err := m.check(p.Definition); err != nil {
		m.Release()
		return nil, fmt.Errorf("check tokenizer %q: %w", p.Name, err)
	}
	return m, nil
}

// limitOf is the first id that is out of range. vLLM accepts ids below the larger of the tokenizer's and the model's
// vocabulary.
func limitOf(p Parts) uint32 {
	limit := uint32(max(p.Vocabulary, p.Definition.ModelVocabulary))
	for _, token := range p.Definition.Added {
		limit = max(limit, token.ID+1)
	}
	return limit
}

// Name returns the model's name.
func (m *Model) Name() string { return m.name }

// Vocabulary returns the number of entries, added tokens included.
func (m *Model) Vocabulary() int { return m.vocabulary }

// IDLimit returns the first id that no request may use.
func (m *Model) IDLimit() uint32 { return m.limit }

// Remote reports whether a worker encodes.
func (m *Model) Remote() bool { return m.remote }

// Stats returns the model's counters.
func (m *Model) Stats() *Stats { return &m.stats }

// Fast reports whether the fast engine encodes; otherwise why not.
func (m *Model) Fast() (used bool, why string) {
	return m.fast != nil && m.active.Load() != nil && *m.fastRefused.Load() == "", *m.fastRefused.Load()
}

// Segments reports whether the segment cache is in use; otherwise why not.
func (m *Model) Segments() (used bool, why string) {
	if m.cutter == nil {
		return false, m.cutRefused
	}
	if m.active.Load() == nil {
		return false, *m.fastRefused.Load()
	}
	return true, ""
}

// Retain takes a reference; false when the last one is gone.
func (m *Model) Retain() bool {
	for {
		n := m.refs.Load()
		if n == 0 {
			return false
		}
		if m.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives a reference back; the last one closes the engines.
func (m *Model) Release() {
	if m.refs.Add(-1) > 0 {
		return
	}
	m.reference.Close()
	if m.fast != nil {
		m.fast.Close()
	}
}
