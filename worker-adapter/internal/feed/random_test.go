package feed_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kvmesh/kvmesh/services/kit/kittest"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/feed"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq/zmqtest"
)

// truth is what the present process of the publisher has published: one entry per number, 0 for a number used up.
type truth struct {
	next uint64
	all  []uint64
	// kept is how many of all the replay buffer still holds.
	kept int
}

// disturb does one random thing to the publisher.
func (tr *truth) disturb(b *bundle, rng *rand.Rand) {
	tr.next++
	payload := batch(b.t, tr.next)
	switch n := rng.IntN(60); {
	case n == 0:
		b.Restart()
		tr.all, tr.kept = nil, 0
		return
	case n == 1:
		b.Hangup()
		return
	case n == 2:
		tr.kept = min(tr.kept, rng.IntN(20))
		b.Forget(tr.kept)
		return
	case n == 3:
		b.Waste()
		tr.all = append(tr.all, 0)
		return
	case n < 14:
		b.Lose(payload)
	default:
		b.Publish(payload)
	}
	tr.all = append(tr.all, tr.next)
	tr.kept++
}

// agrees is nil when what was applied is an unbroken run of the process's batches that ends with its last one.
func (tr *truth) agrees(s *sink) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.applied)
	if n > len(tr.all) || !slices.Equal(s.applied, tr.all[len(tr.all)-n:]) {
		return fmt.Errorf("applied %v of %v", s.applied, tr.all)
	}
	if len(tr.all) > 0 && n == 0 {
		return fmt.Errorf("nothing applied of %v", tr.all)
	}
	if n < len(tr.all) && s.state.Connected && !s.state.Mending && !s.state.Incomplete {
		return fmt.Errorf("%d of %d applied, and the state says that nothing is missing", n, len(tr.all))
	}
	return nil
}

// TestRandom disturbs a publisher at random and then lets it rest. A batch applied twice, out of order, across a hole,
// or of a process that is gone would show as a run that does not match.
func TestRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 11))
			p := zmqtest.Start(t)
			p.OldReplay = seed%2 == 0
			b := follow(t, p, func(c *feed.Config) { c.IdleCheck = 30 * time.Millisecond })
			if seed%3 == 0 {
				b.WaitSubscriber()
			}
			var tr truth
			for range 200 {
				tr.disturb(b, rng)
			}
			tr.next++
			b.Publish(batch(t, tr.next)) // a number used up at the very end leaves nothing to see
			tr.all = append(tr.all, tr.next)
			kittest.Eventually(t, func() error { return tr.agrees(b.sink) })
		})
	}
}
