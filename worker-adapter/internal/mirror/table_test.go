package mirror

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

// spread is a key whose spread hash is x, so that tests choose which keys meet in a table.
func spread(x uint64) uint64 {
	inverse := uint64(1)
	for range 6 { // Newton's iteration doubles the right bits each time
		inverse *= 2 - fibonacci*inverse
	}
	return x * inverse
}

// keys are sets of keys that make a table's life hard.
func keys(kind string, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		switch i := uint64(i); kind {
		case "counted":
			out[i] = i
		case "one tag":
			out[i] = spread(7<<tagShift | i)
		case "one home":
			out[i] = spread(i << tagShift)
		case "last home":
			out[i] = spread(^uint64(0) - i<<tagShift)
		default:
			out[i] = rand.New(rand.NewPCG(i, 1)).Uint64()
		}
	}
	return out
}

var keyKinds = []string{"random", "counted", "one tag", "one home", "last home"}

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, x := range []uint64{0, 1, 1 << 63, 0xdeadbeef << 32} {
		require.Equal(t, x, spread(x)*fibonacci)
	}
}

// TestBlockTable compares the table with a map while keys come and go.
func TestBlockTable(t *testing.T) {
	t.Parallel()
	for _, kind := range keyKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, 2))
			all := keys(kind, 300)
			slab := make([]block, len(all))
			for i, k := range all {
				slab[i] = block{hash: k, at: int32(i)}
			}
			var table blockTable
			model := map[uint64]int32{}
			for range 4_000 {
				i := int32(rng.IntN(len(all)))
				if _, in := model[all[i]]; in {
					table.remove(all[i], i)
					delete(model, all[i])
				} else {
					table.insert(all[i], i)
					model[all[i]] = i
				}
				table.warm(all[:8])
				probe := rng.IntN(len(all))
				want, in := model[all[probe]]
				if !in {
					want = none
				}
				require.Equal(t, want, table.find(slab, all[probe]))
				require.Equal(t, len(model), table.used)
			}
			for k, at := range model {
				require.Equal(t, at, table.find(slab, k))
			}
		})
	}
}

// TestUnitSet compares counts, net changes and digest with maps, step by step.
func TestUnitSet(t *testing.T) {
	t.Parallel()
	for _, kind := range keyKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(3, 4))
			all := keys(kind, 200)
			var set unitSet
			counts, held := map[uint64]int{}, map[uint64]bool{}
			for range 300 {
				for range rng.IntN(2 * ahead) {
					u := all[rng.IntN(len(all))]
					if counts[u] > 0 && rng.IntN(2) == 0 {
						counts[u]--
						set.remove([]uint64{u})
						continue
					}
					counts[u]++
					set.add([]uint64{u})
				}
				added, removed := set.settle(nil, nil)
				for _, u := range added {
					require.False(t, held[u], "added a unit that was held")
					held[u] = true
				}
				for _, u := range removed {
					require.True(t, held[u], "removed a unit that was not held")
					delete(held, u)
				}
				maps.DeleteFunc(counts, func(_ uint64, n int) bool { return n == 0 })
				want := slices.Sorted(maps.Keys(counts))
				require.Equal(t, want, slices.Sorted(maps.Keys(held)))
				require.Equal(t, want, slices.Sorted(slices.Values(set.all(nil))))
				require.Equal(t, len(want), set.held)
				require.Equal(t, kvblock.DigestOf(want), set.digest.Value())
				require.LessOrEqual(t, set.used*10, len(set.places)*7)
			}
		})
	}
}

// TestPool: what is kept stays as it was until it is given back, and places are used again.
func TestPool(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	s := newStore(1)
	type kept struct {
		b    block
		want []uint64
	}
	var live []kept
	for range 1500 {
		if n := len(live); n > 0 && (n > 50 || rng.IntN(2) == 0) {
			i := rng.IntN(n)
			s.unlearn(&live[i].b)
			require.Empty(t, s.unitsOf(&live[i].b))
			live = slices.Delete(live, i, i+1)
			continue
		}
		k := kept{want: make([]uint64, 1+rng.IntN(4))}
		for i := range k.want {
			k.want[i] = rng.Uint64()
		}
		s.learn(&k.b, slices.Clone(k.want))
		live = append(live, k)
		for i := range live {
			require.Equal(t, live[i].want, s.unitsOf(&live[i].b), fmt.Sprint(i))
			require.Equal(t, live[i].want[len(live[i].want)-1], live[i].b.tail[0])
		}
	}
	require.Less(t, len(s.pool.units), 51*4*3)
}
