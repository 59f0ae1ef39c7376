package segment

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const (
	shards = 16
	// entryOverheadBytes is what an entry costs beside its text and ids: the entry, its map slot and allocator slack.
	entryOverheadBytes = 192
)

// Cache maps pieces of text to their ids, least recently used out first. Text is compared whole, so no two pieces are
// ever taken for each other. It is safe for concurrent use.
type Cache struct {
	seed      maphash.Seed
	shards    [shards]shard
	evictions atomic.Uint64
	bytes     atomic.Int64
}

type shard struct {
	mu      sync.Mutex
	entries map[key]*entry
	// newest and oldest end the list in order of use.
	newest, oldest *entry
	bytes, limit   int
}

// key includes the owner, so that one budget serves all models.
type key struct {
	owner uint64
	text  string
}

// entry is immutable but for its place in the list.
type entry struct {
	key          key
	ids          []uint32
	newer, older *entry
}

// NewCache returns a cache that holds at most maxBytes of text, ids and bookkeeping.
func NewCache(maxBytes int) *Cache {
	c := &Cache{seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i] = shard{entries: map[key]*entry{}, limit: maxBytes / shards}
	}
	return c
}

// Append appends the ids of text to dst; false when they are not known.
func (c *Cache) Append(dst []uint32, owner uint64, text []byte) ([]uint32, bool) {
	s := c.shard(text)
	s.mu.Lock()
	e := s.entries[key{owner: owner, text: string(text)}]
	if e == nil {
		s.mu.Unlock()
		return dst, false
	}
	s.unlink(e)
	s.pushNewest(e)
	s.mu.Unlock()
	return append(dst, e.ids...), true
}

// Put remembers the ids of text; both are copied. A piece larger than a quarter of a shard is not kept.
func (c *Cache) Put(owner uint64, text []byte, ids []uint32) {
	s := c.shard(text)
	e := &entry{key: key{owner: owner, text: string(text)}}
	cost := len(text) + 4*len(ids) + entryOverheadBytes
	if cost > s.limit/4 {
		return
	}
	e.ids = append(make([]uint32, 0, len(ids)), ids...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[e.key] != nil {
		return
	}
	before := s.bytes
	s.entries[e.key] = e
	s.pushNewest(e)
	s.bytes += cost
	for s.bytes > s.limit {
		s.drop(s.oldest)
		c.evictions.Add(1)
	}
	c.bytes.Add(int64(s.bytes - before))
}

// Evictions returns how many pieces were dropped for room.
func (c *Cache) Evictions() uint64 { return c.evictions.Load() }

// Bytes returns the size of what is held, bookkeeping included.
func (c *Cache) Bytes() int64 { return c.bytes.Load() }

// shard picks by a seeded hash: no client can aim its texts at one shard.
func (c *Cache) shard(text []byte) *shard {
	return &c.shards[maphash.Bytes(c.seed, text)%shards]
}

// cost is what the entry counts against the limit.
func (e *entry) cost() int { return len(e.key.text) + 4*len(e.ids) + entryOverheadBytes }

// drop removes an entry. The caller holds mu, as for the two below.
func (s *shard) drop(e *entry) {
	s.unlink(e)
	delete(s.entries, e.key)
	s.bytes -= e.cost()
}

// pushNewest puts an entry that is not in the list at its new end.
func (s *shard) pushNewest(e *entry) {
	e.older = s.newest
	if s.newest != nil {
		s.newest.newer = e
	}
	s.newest = e
	if s.oldest == nil {
		s.oldest = e
	}
}

// unlink takes an entry out of the list.
func (s *shard) unlink(e *entry) {
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		s.newest = e.older
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		s.oldest = e.newer
	}
	e.newer, e.older = nil, nil
}
