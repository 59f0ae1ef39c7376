package index

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// newShard returns a shard and an arena with one appender for its units.
func newShard() (*shard, *arena, *appender) {
	s := &shard{}
	s.table.Store(newTable(minSlots))
	return s, newArena(1 << 16), &appender{}
}

// TestShardEqualsAMap drives one shard through growth, backward shifts around the end of the table and shrinking.
func TestShardEqualsAMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 8))
		s, a, p := newShard()
		want := map[uint64]word{}
		keys := 20 + r.Uint64N(2000)
		for range 6000 {
			key := r.Uint64N(keys)
			at, w := s.table.Load().find(a, key)
			require.Equal(t, want[key], w)
			fresh := inlineWord([]uint16{uint16(r.IntN(maxIDs))})
			switch {
			case w == 0:
				want[key] = fresh
				s.insert(entryOf(tagOf(key), p.place(a, key, fresh)))
			case r.IntN(2) == 0:
				delete(want, key)
				s.remove(s.table.Load().place(entryOf(tagOf(key), at-1)))
				a.free(at - 1)
				s.shrink()
			default:
				want[key] = fresh
				a.at(at - 1).set(fresh)
			}
			require.Equal(t, len(want), s.used)
		}
		for key := range keys {
			_, w := s.read(a, key)
			require.Equal(t, want[key], w)
		}
		require.Zero(t, s.version.Load()%2, "no change is left half done")
	}
}

// TestEqualTagsAreTwoUnits has units whose entries differ by place only.
func TestEqualTagsAreTwoUnits(t *testing.T) {
	t.Parallel()
	s, a, p := newShard()
	inverse := uint64(1)
	for range 6 { // Newton's iteration for 1/fibonacci modulo 2^64
		inverse *= 2 - fibonacci*inverse
	}
	keys := make([]uint64, 200) // the low 26 bits of the spread key are in no tag
	for i := range keys {
		keys[i] = (7<<40 + uint64(i)) * inverse
		require.Equal(t, tagOf(keys[0]), tagOf(keys[i]))
		s.insert(entryOf(tagOf(keys[i]), p.place(a, keys[i], word(i+1)<<8|1)))
	}
	for i, key := range keys {
		at, w := s.table.Load().find(a, key)
		require.Equal(t, word(i+1)<<8|1, w)
		if i%2 == 0 {
			s.remove(s.table.Load().place(entryOf(tagOf(key), at-1)))
			a.free(at - 1)
		}
	}
	for i, key := range keys {
		_, w := s.read(a, key)
		require.Equal(t, i%2 == 1, w != 0)
	}
}

func TestTablesGrowAndShrinkWithinTheirLoad(t *testing.T) {
	t.Parallel()
	s, a, p := newShard()
	for key := range uint64(10_000) {
		s.insert(entryOf(tagOf(key), p.place(a, key, 1)))
		require.LessOrEqual(t, s.used*10, len(s.table.Load().entries)*7)
	}
	require.GreaterOrEqual(t, s.used*15, len(s.table.Load().entries)*7-15, "two thirds of that right after a growth")
	for key := range uint64(10_000) {
		at, w := s.table.Load().find(a, key)
		require.Equal(t, word(1), w)
		s.remove(s.table.Load().place(entryOf(tagOf(key), at-1)))
		a.free(at - 1)
		s.shrink()
	}
	require.Len(t, s.table.Load().entries, minSlots)
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
	s, a, p := newShard()
	s.insert(entryOf(tagOf(5), p.place(a, 5, 9)))
	s.version.Add(1) // as if a writer were always at it
	_, w := s.read(a, 5)
	require.Equal(t, word(9), w)
	_, w = s.read(a, 6)
	require.Zero(t, w)
}

func TestHugePagesChangeNothing(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{1, adviseTestEntries - 1, adviseTestEntries, 10 * adviseTestEntries} {
		tab := newTable(entries)
		require.Len(t, tab.entries, entries)
		tab.put(entries-1, 7)
		require.Equal(t, entry(7), tab.get(entries-1))
	}
}

// adviseTestEntries is the least table for which huge pages are asked on Linux.
const adviseTestEntries = (128 << 10) / entryBytes
