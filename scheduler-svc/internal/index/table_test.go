package index

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShardEqualsAMap drives one shard through growth, backward shifts around the end of the table and shrinking.
func TestShardEqualsAMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 8))
		s := &shard{}
		s.table.Store(newTable(minSlots))
		want := map[uint64]word{}
		keys := 20 + r.Uint64N(2000)
		for range 6000 {
			key := r.Uint64N(keys)
			i, w := s.table.Load().find(key)
			require.Equal(t, want[key], w)
			switch {
			case w == 0:
				want[key] = inlineWord([]uint16{uint16(r.IntN(maxIDs))})
				s.insert(i, key, want[key])
			case r.IntN(2) == 0:
				delete(want, key)
				s.remove(i)
				s.shrink()
			default:
				want[key] = inlineWord([]uint16{uint16(r.IntN(maxIDs))})
				s.table.Load().setWord(i, want[key])
			}
			require.Equal(t, len(want), s.used)
		}
		for key := range keys {
			require.Equal(t, want[key], s.read(key))
		}
		require.Zero(t, s.version.Load()%2, "no change is left half done")
	}
}

func TestTablesGrowAndShrinkWithinTheirLoad(t *testing.T) {
	t.Parallel()
	s := &shard{}
	s.table.Store(newTable(minSlots))
	for key := range uint64(10_000) {
		i, _ := s.table.Load().find(key)
		s.insert(i, key, 1)
		require.LessOrEqual(t, s.used*5, len(s.table.Load().slots)*3)
	}
	require.GreaterOrEqual(t, s.used*5, len(s.table.Load().slots)*2-10, "two fifths right after a growth")
	for key := range uint64(10_000) {
		i, w := s.table.Load().find(key)
		require.Equal(t, word(1), w)
		s.remove(i)
		s.shrink()
	}
	require.Len(t, s.table.Load().slots, minSlots)
}

func TestDistanceGoesAround(t *testing.T) {
	t.Parallel()
	tab := newTable(10)
	require.Equal(t, 0, tab.distance(3, 3))
	require.Equal(t, 4, tab.distance(3, 7))
	require.Equal(t, 6, tab.distance(7, 3))
	require.Equal(t, 0, tab.next(9))
}

// TestReadersGiveUpOnAMovingShard: after some tries a reader takes the lock, so a busy writer cannot hold it off.
func TestReadersGiveUpOnAMovingShard(t *testing.T) {
	t.Parallel()
	s := &shard{}
	s.table.Store(newTable(minSlots))
	i, _ := s.table.Load().find(5)
	s.insert(i, 5, 9)
	s.version.Add(1) // as if a writer were always at it
	require.Equal(t, word(9), s.read(5))
	require.Equal(t, word(0), s.read(6))
}

func TestHugePagesChangeNothing(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, adviseTestSlots - 1, adviseTestSlots, 10 * adviseTestSlots} {
		tab := newTable(slots)
		require.Len(t, tab.slots, slots)
		tab.put(slots-1, 3, 4)
		w, key := tab.get(slots - 1)
		require.Equal(t, word(3), w)
		require.Equal(t, uint64(4), key)
	}
}

// adviseTestSlots is the least table for which huge pages are asked on Linux.
const adviseTestSlots = (128 << 10) / slotBytes
