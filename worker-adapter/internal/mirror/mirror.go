// Package mirror keeps the set of units that a worker's cache holds, as its events tell it.
//
// A worker names its blocks by hashes of its own. The mirror maps (tier, hash) to units: it chains kvblock hashes over
// the token ids of the events, starting from the parent's last unit, and counts copies per cache group, because a
// worker announces every physical copy and every removal of one. A unit is held while a countable block has it.
//
// A block is countable when its content is known: its whole parent chain was seen and its extras can be placed. What a
// worker holds beyond that is left out: the mirror claims too little rather than too much.
//
// Hybrid models have several cache groups, and a hit needs all of them: every block from the start in the groups of full
// attention, a window's worth before its end in sliding groups, the last block in Mamba groups. So a shorter prefix of a
// cached prompt can hit nothing, and a longest prefix says nothing. Of such a worker the mirror holds kvblock.HybridMark,
// the units of blocks that all full groups have (the path), and for each block where every group can serve the end of a
// hit kvblock.Boundary of its last unit. The hit is the deepest boundary on the path, as vLLM 0.32 finds it.
package mirror

import (
	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
)

// Copies says what a removal means.
type Copies uint8

const (
	// CopiesEach is vLLM's rule up to 0.32: one removal per physical copy.
	CopiesEach Copies = iota
	// CopiesLast is for workers that announce the removal of the last copy only.
	CopiesLast
)

// Defaults of Config.
const (
	// DefaultOrphanBlocks keeps ids of 8,192 blocks whose parent is unknown, half a megabyte at 16 tokens.
	DefaultOrphanBlocks = 8192
	// DefaultMaxBlocks bounds a tier whose capacity is not known: 4 Mi blocks are 64 Mi tokens at 16 per block.
	DefaultMaxBlocks = 4 << 20
	// DefaultMaxNames is far more adapters than an engine lists in its life; at 4,096 its list of models is not read.
	DefaultMaxNames = 16384
)

// Config is what a mirror needs to know beforehand.
type Config struct {
	// Model is the base model's id, the namespace of all units.
	Model string
	// Copies is the rule for removals.
	Copies Copies
	// OrphanBlocks bounds the blocks that wait for their parent; 0 means DefaultOrphanBlocks.
	OrphanBlocks int
	// MaxBlocks bounds each tier while its capacity is unknown; 0 means DefaultMaxBlocks.
	MaxBlocks int
	// MaxNames bounds the adapters' names that are told apart; 0 means DefaultMaxNames. One more, and all is forgotten.
	MaxNames int
}

// Mirror is one rank's cache. It is not safe for concurrent use.
type Mirror struct {
	cfg     Config
	tiers   [tierCount]*store
	names   map[string]int32
	spaces  []space
	orphans orphanage
	reset   bool
	// hashed is the memory of unitsOf.
	hashed []uint64
	stats  Stats
	delta  Delta
}

// space is a namespace: the base model or one LoRA adapter.
type space struct {
	lora string
	root uint64
}

// New is an empty mirror.
func New(cfg Config) *Mirror {
	if cfg.OrphanBlocks == 0 {
		cfg.OrphanBlocks = DefaultOrphanBlocks
	}
	if cfg.MaxBlocks == 0 {
		cfg.MaxBlocks = DefaultMaxBlocks
	}
	if cfg.MaxNames == 0 {
		cfg.MaxNames = DefaultMaxNames
	}
	m := &Mirror{cfg: cfg}
	m.forget()
	return m
}

// forget empties everything but the statistics and the capacities.
func (m *Mirror) forget() {
	for i, old := range m.tiers {
		m.tiers[i] = newStore(m.cfg.MaxBlocks)
		if old != nil {
			m.tiers[i].limit = old.limit
		}
	}
	m.names = map[string]int32{}
	m.spaces = nil
	m.orphans = orphanage{limit: m.cfg.OrphanBlocks}
}

// SetCapacity says how many blocks the engine's pool can hold (num_gpu_blocks without the null block); 0 means
// unknown. More than that cannot be true: from the next step on the mirror drops surplus copies first, then its oldest
// blocks.
func (m *Mirror) SetCapacity(blocks int) {
	limit := m.cfg.MaxBlocks
	if blocks > 0 && blocks < limit {
		limit = blocks
	}
	m.tiers[GPU].limit = limit
}

// Apply takes one engine step in and returns what it changed. The delta is valid until the next call.
func (m *Mirror) Apply(b *kvevents.Batch) *Delta {
	m.stats.Skipped += uint64(b.Skipped)
	for i := range b.Events {
		m.event(&b.Events[i])
	}
	return m.settle()
}

// event takes one event in.
func (m *Mirror) event(ev *kvevents.Event) {
	switch ev.Kind {
	case kvevents.Stored:
		m.stored(ev)
	case kvevents.Removed:
		m.removed(ev)
	case kvevents.Cleared:
		m.clearTier(GPU)
	}
}

// Clear is what a reset or a sleep of the engine means, known before the worker's own event, which only comes with a
// later step. Other tiers keep their blocks: the engine's clear does not touch them.
func (m *Mirror) Clear() *Delta {
	m.clearTier(GPU)
	return m.settle()
}

// Reset forgets all tiers: the worker restarted or events were lost for good.
func (m *Mirror) Reset() *Delta {
	m.forget()
	m.reset = true
	return m.settle()
}

// clearTier empties one tier.
func (m *Mirror) clearTier(t Tier) {
	limit := m.tiers[t].limit
	m.tiers[t] = newStore(m.cfg.MaxBlocks)
	m.tiers[t].limit = limit
	m.reset = true
}

// DropLoRA takes the units of an adapter's name out: the name now stands for other weights. Copies stay counted, so
// that later removals find them.
func (m *Mirror) DropLoRA(name string) *Delta {
	if ns, ok := m.names[name]; ok && name != "" {
		for _, s := range m.tiers {
			s.dropSpace(ns)
		}
		m.orphans.dropSpace(ns)
		m.stats.LoRADrops++
	}
	return m.settle()
}

// namespace is the index of a LoRA name's namespace.
func (m *Mirror) namespace(lora string) int32 {
	if ns, ok := m.names[lora]; ok {
		return ns
	}
	ns := int32(len(m.spaces))
	m.names[lora] = ns
	m.spaces = append(m.spaces, space{lora: lora, root: kvblock.Namespace{Model: m.cfg.Model, LoRA: lora}.Root()})
	return ns
}

// crowded reports whether an adapter's name would be one too many.
func (m *Mirror) crowded(lora string) bool {
	_, known := m.names[lora]
	return !known && lora != "" && len(m.spaces) > m.cfg.MaxNames // the base model's space is none of them
}

// settle trims what cannot be true and turns the step's changes into a delta.
func (m *Mirror) settle() *Delta {
	m.delta.Reset = m.reset
	m.reset = false
	for t, s := range m.tiers {
		m.stats.Trimmed += uint64(s.trim())
		s.settleGroups()
		td := &m.delta.Tiers[t]
		td.Added, td.Removed = s.units.settle(td.Added[:0], td.Removed[:0])
	}
	return &m.delta
}
