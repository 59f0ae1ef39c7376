package segment

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCacheReturnsWhatWasPut(t *testing.T) {
	t.Parallel()
	c := NewCache(1 << 20)
	_, ok := c.Append(nil, 1, []byte("a"))
	require.False(t, ok)
	text, ids := []byte("a"), []uint32{1, 2}
	c.Put(1, text, ids)
	text[0], ids[0] = 'z', 9
	got, ok := c.Append([]uint32{7}, 1, []byte("a"))
	require.True(t, ok)
	require.Equal(t, []uint32{7, 1, 2}, got)
	_, ok = c.Append(nil, 2, []byte("a"))
	require.False(t, ok, "another owner's entry")
	require.Positive(t, c.Bytes())
	require.Zero(t, c.Evictions())
}

func TestCachePutTwiceKeepsTheFirst(t *testing.T) {
	t.Parallel()
	c := NewCache(1 << 20)
	c.Put(1, []byte("a"), []uint32{1})
	size := c.Bytes()
	c.Put(1, []byte("a"), []uint32{2})
	require.Equal(t, size, c.Bytes())
	got, _ := c.Append(nil, 1, []byte("a"))
	require.Equal(t, []uint32{1}, got)
}

func TestCacheStaysWithinItsBytes(t *testing.T) {
	t.Parallel()
	const limit = 256 << 10
	c := NewCache(limit)
	for i := range 10_000 {
		c.Put(1, []byte(fmt.Sprintf("piece %d %s", i, strings.Repeat("x", i%200))), make([]uint32, i%60))
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
	c.Put(1, make([]byte, 2<<10), nil)
	require.Zero(t, c.Bytes())
	c.Put(1, make([]byte, 512), nil)
	require.Positive(t, c.Bytes())
}

// TestCacheDropsTheLeastRecentlyUsed compares one shard with a list that is searched from end to end.
func TestCacheDropsTheLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	const each = 8
	c := NewCache(1)
	cost := len("p00") + entryOverheadBytes
	// Room for `each` entries in every shard; 4*cost is the largest that one may have.
	for i := range c.shards {
		c.shards[i].limit = each * cost
	}
	order := map[*shard][]string{}
	rng := rand.New(rand.NewPCG(5, 5))
	for range 20_000 {
		text := fmt.Sprintf("p%02d", rng.IntN(100))[:3]
		s := c.shard([]byte(text))
		list := order[s]
		at := -1
		for i, known := range list {
			if known == text {
				at = i
			}
		}
		_, hit := c.Append(nil, 1, []byte(text))
		require.Equal(t, at >= 0, hit, text)
		if hit {
			list = append(list[:at], list[at+1:]...)
		} else {
			c.Put(1, []byte(text), nil)
			if len(list) == each {
				list = list[1:]
			}
		}
		order[s] = append(list, text)
	}
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
				text := []byte(fmt.Sprintf("text number %d", n))
				ids, ok := c.Append(nil, 1, text)
				if ok && (len(ids) != 1 || ids[0] != uint32(n)) {
					t.Errorf("%s has ids %v", text, ids)
				}
				if !ok {
					c.Put(1, text, []uint32{uint32(n)})
				}
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, c.Bytes(), int64(64<<10))
}
