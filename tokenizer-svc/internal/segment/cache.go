package segment

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

const (
	shards = 16
	// entryOverheadBytes is what an entry costs beside its units and ids: the entry, its map slot and allocator slack.
	entryOverheadBytes = 320
	// MaxTail is the largest number of ids that fill no unit.
	MaxTail = 15
)

// Key stands for a chain of pieces: for all text from a prompt's beginning to a cut, and for what the unit hashes depend
// on beside it. Keys are 128 bits of a hash whose seed is drawn at random in every process, so that no two chains share
// one, whoever wrote them.
type Key struct{ hi, lo uint64 }

// Piece is what the last piece of a chain adds to the pieces before it. It is immutable.
type Piece struct {
	// Units are the hashes of the units that end in the piece.
	Units []uint64
	// Tail is the ids after the last full unit of the chain; the first may be of an earlier piece.
	Tail []uint32
	// IDs are all ids of the piece; nil where nobody has asked for ids.
	IDs []uint32
}

// Cache maps chains of pieces to what they add, least recently used out first. It is safe for concurrent use.
type Cache struct {
	seed      uint64
	shards    [shards]shard
	evictions atomic.Uint64
	bytes     atomic.Int64
}

type shard struct {
	mu      sync.Mutex
	entries map[Key]*entry
	// newest and oldest end the list in order of use.
	newest, oldest *entry
	bytes, limit   int
}

// entry is immutable but for its place in the list.
type entry struct {
	key          Key
	piece        Piece
	room         [MaxTail]uint32 // of piece.Tail
	newer, older *entry
}

// NewCache returns a cache that holds at most maxBytes, bookkeeping included.
func NewCache(maxBytes int) *Cache {
	c := &Cache{seed: rand.Uint64()}
	for i := range c.shards {
		c.shards[i] = shard{entries: map[Key]*entry{}, limit: maxBytes / shards}
	}
	return c
}

// Root is the key of an empty chain: of one owner, which tells a load of a model from all others, and one beginning,
// which is what the hashes of the same text differ by.
func (c *Cache) Root(owner uint64, beginning []byte) Key {
	h := xxh3.Hash128Seed(beginning, c.seed^owner)
	return c.join(Key{hi: owner}, h)
}

// After is the key of the chain at with one more piece.
func (c *Cache) After(at Key, text []byte) Key { return c.join(at, xxh3.Hash128Seed(text, c.seed)) }

func (c *Cache) join(at Key, h xxh3.Uint128) Key {
	var b [32]byte
	binary.LittleEndian.PutUint64(b[0:], at.hi)
	binary.LittleEndian.PutUint64(b[8:], at.lo)
	binary.LittleEndian.PutUint64(b[16:], h.Hi)
	binary.LittleEndian.PutUint64(b[24:], h.Lo)
	out := xxh3.Hash128Seed(b[:], c.seed)
	return Key{hi: out.Hi, lo: out.Lo}
}

// Find returns what a chain's last piece adds; nil when it is not known.
func (c *Cache) Find(k Key) *Piece {
	s := c.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[k]
	if e == nil {
		return nil
	}
	if s.newest != e {
		s.unlink(e)
		s.pushNewest(e)
	}
	return &e.piece
}

// Put remembers what a chain's last piece adds; all is copied. One that is known already is replaced only by one with
// ids where it has none. A piece larger than a quarter of a shard is not kept.
func (c *Cache) Put(k Key, p Piece) {
	e := &entry{key: k}
	e.piece.Units = append(make([]uint64, 0, len(p.Units)), p.Units...)
	e.piece.Tail = append(e.room[:0], p.Tail...)
	if p.IDs != nil {
		e.piece.IDs = append(make([]uint32, 0, len(p.IDs)), p.IDs...)
	}
	s := c.shard(k)
	cost := e.cost()
	if cost > s.limit/4 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.bytes
	if known := s.entries[k]; known != nil {
		if known.piece.IDs != nil || p.IDs == nil {
			return
		}
		s.drop(known)
	}
	s.entries[k] = e
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

// shard picks by the hash: no client can aim its texts at one shard.
func (c *Cache) shard(k Key) *shard { return &c.shards[k.hi%shards] }

// cost is what the entry counts against the limit.
func (e *entry) cost() int { return 8*len(e.piece.Units) + 4*len(e.piece.IDs) + entryOverheadBytes }

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
