package segment

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// chain is the key of pieces after the root of an owner.
func chain(c *Cache, owner uint64, pieces ...string) Key {
	k := c.Root(owner, nil)
	for _, p := range pieces {
		k = c.After(k, []byte(p))
	}
	return k
}

func TestCacheReturnsWhatWasPut(t *testing.T) {
	t.Parallel()
	c := NewCache(1 << 20)
	k := chain(c, 1, "a")
	require.Nil(t, c.Find(k))
	units, tail := []uint64{1, 2}, []uint32{3}
	c.Put(k, Piece{Units: units, Tail: tail})
	units[0], tail[0] = 9, 9
	require.Empty(t, cmp.Diff(&Piece{Units: []uint64{1, 2}, Tail: []uint32{3}}, c.Find(k)))
	require.Positive(t, c.Bytes())
	require.Zero(t, c.Evictions())
}

// TestKeysAreOfTheWholeChain tells apart everything that the hashes of a piece depend on.
func TestKeysAreOfTheWholeChain(t *testing.T) {
	t.Parallel()
	c := NewCache(1 << 20)
	keys := map[string]Key{
		"one piece":        chain(c, 1, "ab"),
		"another owner":    chain(c, 2, "ab"),
		"the same in two":  chain(c, 1, "a", "b"),
		"in other order":   chain(c, 1, "b", "a"),
		"after another":    chain(c, 1, "x", "ab"),
		"twice":            chain(c, 1, "ab", "ab"),
		"nothing":          chain(c, 1),
		"an empty piece":   chain(c, 1, ""),
		"other beginning":  c.After(c.Root(1, []byte("salt")), []byte("ab")),
		"text as the root": c.Root(1, []byte("ab")),
		"another process":  chain(NewCache(1<<20), 1, "ab"),
	}
	seen := map[Key]string{}
	for name, k := range keys {
		require.Empty(t, seen[k], name)
		seen[k] = name
	}
	require.Equal(t, keys["the same in two"], chain(c, 1, "a", "b"))
}

func TestCachePutTwice(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name                string
		first, second, want Piece
	}{
		{"keeps the first", Piece{Tail: []uint32{1}}, Piece{Tail: []uint32{2}}, Piece{Tail: []uint32{1}}},
		{
			"keeps ids",
			Piece{Tail: []uint32{1}, IDs: []uint32{1}},
			Piece{Tail: []uint32{1}},
			Piece{Tail: []uint32{1}, IDs: []uint32{1}},
		},
		{
			"adds ids",
			Piece{Tail: []uint32{1}},
			Piece{Tail: []uint32{1}, IDs: []uint32{1}},
			Piece{Tail: []uint32{1}, IDs: []uint32{1}},
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := NewCache(1 << 20)
			k := chain(c, 1, "a")
			c.Put(k, row.first)
			c.Put(k, row.second)
			got := c.Find(k)
			require.Empty(t, cmp.Diff(row.want.Tail, got.Tail))
			require.Equal(t, row.want.IDs, got.IDs)
			require.EqualValues(t, entryOverheadBytes+4*len(row.want.IDs), c.Bytes())
			require.Zero(t, c.Evictions())
		})
	}
}

func TestCacheStaysWithinItsBytes(t *testing.T) {
	t.Parallel()
	const limit = 256 << 10
	c := NewCache(limit)
	for i := range 10_000 {
		c.Put(chain(c, 1, fmt.Sprint(i)), Piece{Units: make([]uint64, i%200), IDs: make([]uint32, i%60)})
		require.LessOrEqual(t, c.Bytes(), int64(limit))
	}
	require.Positive(t, c.Evictions())
	held := int64(0)
	for i := range c.shards {
		held += int64(c.shards[i].bytes)
	}
	require.Equal(t, held, c.Bytes())
}

func TestCacheRefusesPiecesThatWouldFillIt(t *testing.T) {
	t.Parallel()
	c := NewCache(shards * 4 << 10)
	c.Put(chain(c, 1, "a"), Piece{Units: make([]uint64, 256)})
	require.Zero(t, c.Bytes())
	c.Put(chain(c, 1, "a"), Piece{Units: make([]uint64, 64)})
	require.Positive(t, c.Bytes())
}

// TestCacheDropsTheLeastRecentlyUsed compares each shard with a list that is searched from end to end.
func TestCacheDropsTheLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	const each = 8
	c := NewCache(1)
	for i := range c.shards {
		c.shards[i].limit = each * entryOverheadBytes
	}
	order := map[*shard][]string{}
	rng := rand.New(rand.NewPCG(5, 5))
	for range 20_000 {
		text := fmt.Sprintf("p%02d", rng.IntN(300)%180)
		k := chain(c, 1, text)
		s := c.shard(k)
		list := order[s]
		at := -1
		for i, known := range list {
			if known == text {
				at = i
			}
		}
		hit := c.Find(k) != nil
		require.Equal(t, at >= 0, hit, text)
		if hit {
			list = append(list[:at], list[at+1:]...)
		} else {
			c.Put(k, Piece{})
			if len(list) == each {
				list = list[1:]
			}
		}
		order[s] = append(list, text)
	}
	require.Positive(t, c.Evictions())
}

func TestCacheUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	c := NewCache(64 << 10)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 1))
			for range 3000 {
				n := rng.IntN(300)
				k := chain(c, 1, fmt.Sprint(n))
				p := c.Find(k)
				if p != nil && (len(p.Tail) != 1 || p.Tail[0] != uint32(n)) {
					t.Errorf("piece %d has %v", n, p.Tail)
				}
				if p == nil {
					c.Put(k, Piece{Tail: []uint32{uint32(n)}})
				}
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, c.Bytes(), int64(64<<10))
}
