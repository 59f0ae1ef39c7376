package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

const greeting = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

// TestAFullWorkerIsPassedOver: the second call goes to the other worker though the scheduler names the first, and the
// reservation that was not used is settled.
func TestAFullWorkerIsPassedOver(t *testing.T) {
	t.Parallel()
	a, b := startWorker(t, plain(200, `{"choices":[]}`)), startWorker(t, plain(200, `{"choices":[]}`))
	s := &scheduler{workers: []*worker{a, b}}
	d := dispatcher(t, s, func(c *Config) { c.PerWorker = 1 })
	first, err := d.Open(t.Context(), job(t, greeting))
	require.NoError(t, err)
	second, err := d.Open(t.Context(), job(t, greeting))
	require.NoError(t, err)
	require.Equal(t, "w0", first.Lease.Route.GetTarget().GetWorkerId())
	require.Equal(t, "w1", second.Lease.Route.GetTarget().GetWorkerId())
	first.Close(d, nil)
	second.Close(d, nil)
	require.Len(t, s.outcomes(t), 3, "two calls, and one reservation that was given back")
	require.Empty(t, d.places.taken)
}

// TestAllWorkersFull: a call waits for a place, its caller may leave, and the wait has an end.
func TestAllWorkersFull(t *testing.T) {
	t.Parallel()
	w := startWorker(t, plain(200, `{"choices":[]}`))
	s := &scheduler{workers: []*worker{w}}
	d := dispatcher(t, s, func(c *Config) { c.PerWorker, c.PlaceWait = 1, 20*time.Millisecond })
	first, err := d.Open(t.Context(), job(t, greeting))
	require.NoError(t, err)

	_, err = d.Open(t.Context(), job(t, greeting))
	require.Equal(t, faultv1.Reason_REASON_OVERLOADED, fault.ReasonOf(err))
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err = d.Open(gone, job(t, greeting))
	require.Equal(t, faultv1.Reason_REASON_CANCELLED, fault.ReasonOf(err))

	d.cfg.PlaceWait = 0
	var wg sync.WaitGroup
	wg.Go(func() {
		second, err := d.Open(context.Background(), job(t, greeting))
		if err == nil {
			second.Close(d, nil)
		}
	})
	first.Close(d, nil)
	wg.Wait()
	require.Len(t, w.calls(), 2)
	require.Empty(t, d.places.taken)
}

// TestPlacesHold: whatever many goroutines do, no worker has more calls than its bound, and none is left in the end.
func TestPlacesHold(t *testing.T) {
	t.Parallel()
	const limit, workers = 3, 4
	p := newPlaces(limit)
	var mu sync.Mutex
	running := map[string]int{}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 500 {
				id := fmt.Sprint(r.IntN(workers))
				if !p.take(id) {
					continue
				}
				mu.Lock()
				running[id]++
				over := running[id] > limit
				mu.Unlock()
				if over {
					t.Errorf("worker %s has more than %d calls", id, limit)
				}
				mu.Lock()
				running[id]--
				mu.Unlock()
				p.give(id)
			}
		})
	}
	wg.Wait()
	require.Empty(t, p.taken)
}

// TestHedgeCancelsTheSlower: the hanging call's connection closes, each reservation is settled once, and the second
// attempt's route says that it is a hedge.
func TestHedgeCancelsTheSlower(t *testing.T) {
	t.Parallel()
	slow, fast := startWorker(t, "hang"), startWorker(t, plain(200, `{"choices":[]}`))
	s := &scheduler{workers: []*worker{slow, fast}}
	d := dispatcher(t, s, func(c *Config) { c.Hedge = Hedge{Delay: time.Millisecond, Budget: 1} })
	a, err := d.Open(t.Context(), job(t, greeting))
	require.NoError(t, err)
	require.Equal(t, "w1", a.Lease.Route.GetTarget().GetWorkerId())
	a.Close(d, nil)
	d.Wait()
	require.ElementsMatch(t, []schedulerv1.Outcome{
		schedulerv1.Outcome_OUTCOME_CANCELLED, schedulerv1.Outcome_OUTCOME_OK,
	}, s.outcomes(t))
	require.Equal(t, schedulerv1.AttemptKind_ATTEMPT_KIND_HEDGE, s.routed[1].GetKind())
	require.Len(t, s.routed[1].GetExclude(), 1)
}
