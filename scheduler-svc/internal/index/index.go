// Package index knows which worker holds which unit.
//
// It maps a unit hash to the set of its holders, (stream, tier) pairs, where a stream is one rank of one worker. Holders
// are interned to small integers and packed into one word beside the hash; sets of more than four are shared by all units
// that have them. Units that arrive together lie together in an arena, so a walk mostly reads memory in sequence; a table
// from hash to place is its way in and past the breaks. The table is cut into 64 shards of open addressing. Writers lock
// one shard for one unit; readers lock nothing.
//
// A stream that ends, clears a tier or is replaced by a snapshot leaves the walk at once, whatever its size: its holder
// ids die. Sweep takes dead ids out of the table afterwards, and only then can an id be given to another holder.
//
// Memory is bounded: a shard has room for its share of MaxUnits and gives up a unit at a pseudo-random place for each one
// beyond it, the arena grows only while three quarters of it are in use, and the pool of shared sets has MaxSetBytes and
// refuses holders beyond it. Losses are counted, for the index and for the stream that lost, whose digest can then no
// longer equal its worker's.
package index

import (
	"sync"
	"sync/atomic"
)

// Tier is where a holder keeps a unit. Device is the fast one.
type Tier uint8

// The tiers, fastest first.
const (
	Device Tier = iota
	Host
	Storage
	tierCount
)

// Tiers is the number of tiers.
const Tiers = int(tierCount)

// MaxStreams bounds the open streams of one index.
const MaxStreams = 1 << 13

// Config bounds the memory.
type Config struct {
	MaxUnits    int   // units held at once; 0 means 16 Mi, about 34 bytes each
	MaxSetBytes int64 // memory for shared sets of five or more holders; 0 means 256 MiB
}

// Index is safe for concurrent use, but for the rule that each Stream has one writer at a time.
type Index struct {
	shards    [shardCount]shard
	perShard  int
	arena     *arena
	appenders [appenderCount]appender
	sets      *setPool
	meta      [maxIDs]atomic.Uint32 // what a walk needs of a holder id
	gens      [maxIDs]atomic.Pointer[generation]
	reused    atomic.Uint64 // ids handed out again: a walk across such a moment starts again

	mu      sync.Mutex // guards what follows
	ids     idAllocator
	streams []*Stream // by number, nil when closed
	opened  atomic.Int32

	sweeping sync.Mutex // one sweep at a time
	evicted  atomic.Uint64
	refused  atomic.Uint64
}

// New returns an empty index.
func New(cfg Config) *Index {
	if cfg.MaxUnits <= 0 {
		cfg.MaxUnits = 16 << 20
	}
	if cfg.MaxSetBytes <= 0 {
		cfg.MaxSetBytes = 256 << 20
	}
	x := &Index{perShard: max(1, (cfg.MaxUnits+shardCount-1)/shardCount), sets: newSetPool(cfg.MaxSetBytes)}
	x.arena = newArena(x.perShard * shardCount)
	for i := range x.shards {
		x.shards[i].table.Store(newTable(minSlots))
	}
	for i := range x.meta {
		x.meta[i].Store(metaDead)
	}
	return x
}

func (x *Index) shardOf(key uint64) *shard { return &x.shards[key*fibonacci>>(64-shardBits)] }

// Stats is the size of an index.
type Stats struct {
	Units   int    // distinct units, those of dead holders included until they are swept
	Bytes   int64  // tables and shared sets
	Evicted uint64 // units given up for newer ones since the start
	Refused uint64 // holders not recorded because ids or the bytes of sets ran out
	Dead    int    // holder ids waiting for a sweep
	Streams int    // open streams
}

// Stats counts under the writers' locks, one shard at a time.
func (x *Index) Stats() Stats {
	out := Stats{Evicted: x.evicted.Load(), Refused: x.refused.Load(), Bytes: x.sets.size() + x.arena.size()}
	for i := range x.shards {
		s := &x.shards[i]
		s.mu.Lock()
		out.Units += s.used
		out.Bytes += int64(len(s.table.Load().entries)) * entryBytes
		s.mu.Unlock()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	out.Dead = len(x.ids.dead)
	for _, s := range x.streams {
		if s != nil {
			out.Streams++
		}
	}
	return out
}
