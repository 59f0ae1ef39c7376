package expect

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// world is what a set should say: per request the units that it is to make, less those that were confirmed.
type world struct {
	set    Set
	open   map[uint64][]uint64
	chains [][]uint64
	held   map[uint64]bool
	owner  uint64
}

func newWorld(r *rand.Rand) *world {
	w := &world{open: map[uint64][]uint64{}, held: map[uint64]bool{}}
	for c := range uint64(4) {
		one := chain(100+c, 30)
		if c > 0 {
			copy(one, w.chains[0][:r.IntN(20)])
		}
		w.chains = append(w.chains, one)
	}
	return w
}

// confirmed is how much of a chain the target holds, as the index would tell.
func (w *world) confirmed(units []uint64) int {
	n := 0
	for n < len(units) && w.held[units[n]] {
		n++
	}
	return n
}

func (w *world) step(r *rand.Rand) {
	c := w.chains[r.IntN(len(w.chains))]
	switch r.IntN(5) {
	case 0, 1:
		w.owner++
		end := 1 + r.IntN(len(c))
		units := c[w.confirmed(c[:end]):end]
		w.set.Insert(Expectation{Owner: w.owner, Units: units, Expires: at(1)})
		if len(units) > 0 {
			w.open[w.owner] = units
		}
	case 2:
		for owner := range w.open {
			done := r.IntN(2) == 0
			w.set.Release(owner, done, at(1))
			if !done { // what is done is expected until it is confirmed or its time is over
				delete(w.open, owner)
			}
			break
		}
	default:
		n := w.confirmed(c)
		for i := n; i < min(len(c), n+1+r.IntN(6)); i++ {
			w.held[c[i]] = true
		}
		w.confirm()
	}
}

func (w *world) confirm() {
	w.set.Confirm(func(u uint64) bool { return w.held[u] })
	for owner, units := range w.open {
		n := w.confirmed(units)
		if n == len(units) {
			delete(w.open, owner)
			continue
		}
		w.open[owner] = units[n:]
	}
}

// extend is the obvious answer: unit by unit, whether some open request will make it.
func (w *world) extend(rest []uint64) int {
	best := 0
	for _, units := range w.open {
		n := 0
		for n < min(len(units), len(rest)) && units[n] == rest[n] {
			n++
		}
		best = max(best, n)
	}
	return best
}

// TestSetEqualsTheObviousModel compares after every step, for every chain behind its confirmed part.
func TestSetEqualsTheObviousModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(r)
		for range 80 {
			w.step(r)
			require.Equal(t, len(w.open), w.set.Len(), "seed %d", seed)
			for _, c := range w.chains {
				rest := c[w.confirmed(c):]
				require.Equal(t, w.extend(rest), w.set.Extend(rest, at(0)), "seed %d", seed)
			}
		}
	}
}
