package admit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// server is capacity that waiters take and give back, as the engine does with targets.
type server struct {
	mu    sync.Mutex
	free  int
	least int
}

func (s *server) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	s.least = min(s.least, s.free)
	return true
}

func (s *server) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
}

// TestEveryWaiterIsServedOrLeaves has hundreds of requests for few places, a third of which go away while they wait.
func TestEveryWaiterIsServedOrLeaves(t *testing.T) {
	t.Parallel()
	q, s := newQueue(1000), &server{free: 3}
	var served, left atomic.Int64
	var wg sync.WaitGroup
	for i := range 300 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if i%3 == 0 {
				cancel()
			}
			w := &Waiter{Model: "m", Tenant: fmt.Sprint(i % 5), Priority: int32(i % 2)}
			if pass(ctx, q, s, w) {
				served.Add(1)
				s.give()
				q.Freed(start, "m")
				return
			}
			left.Add(1)
		})
	}
	wg.Wait()
	require.Equal(t, int64(300), served.Load()+left.Load())
	require.GreaterOrEqual(t, served.Load(), int64(200), "who stays is served")
	require.Zero(t, q.Waiting())
	require.Equal(t, 3, s.free)
	require.GreaterOrEqual(t, s.least, 0)
}

// pass waits for a place; it reports false when ctx ended first.
func pass(ctx context.Context, q *Queue, s *server, w *Waiter) bool {
	if w.Look = q.Look(w.Model, w.Model, w.Priority); !w.Look.Behind && s.take() {
		return true
	}
	w.Line = w.Model
	if !q.Enter(w) {
		return false
	}
	placed := false
	defer func() { q.Leave(w, placed) }()
	for {
		if err := q.Wait(ctx, w); err != nil {
			return false
		}
		if s.take() {
			placed = true
			return true
		}
	}
}

// TestCapacityThatAppearsWhileTheOnlyWaiterDecides: a turn given meanwhile is not lost, to the waiter or to others.
func TestCapacityThatAppearsWhileTheOnlyWaiterDecides(t *testing.T) {
	t.Parallel()
	deciding := func(t *testing.T, q *Queue) *Waiter {
		t.Helper()
		w := &Waiter{Model: "m", Tenant: "a"}
		require.True(t, enter(q, w))
		q.Tick()
		require.NoError(t, q.Wait(t.Context(), w)) // it tries, finds no room ...
		q.Freed(start, "m")                        // ... and a place is free before it waits again
		return w
	}
	t.Run("it tries again", func(t *testing.T) {
		t.Parallel()
		q := newQueue(10)
		require.NoError(t, q.Wait(t.Context(), deciding(t, q)))
	})
	t.Run("it goes away, the next one tries", func(t *testing.T) {
		t.Parallel()
		q := newQueue(10)
		w := deciding(t, q)
		other := &Waiter{Model: "m", Tenant: "b"}
		require.True(t, enter(q, other))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if q.Wait(gone, w) == nil {
			q.Tick() // it took the turn instead, and tried in vain: the next place is the other's
		}
		q.Leave(w, false)
		require.NoError(t, q.Wait(t.Context(), other))
	})
	t.Run("it is placed, the next one tries", func(t *testing.T) {
		t.Parallel()
		q := newQueue(10)
		w := deciding(t, q)
		other := &Waiter{Model: "m", Tenant: "b"}
		require.True(t, enter(q, other))
		q.Leave(w, true)
		require.NoError(t, q.Wait(t.Context(), other))
	})
	t.Run("the most urgent of those that decide", func(t *testing.T) {
		t.Parallel()
		q := newQueue(10)
		low, high := &Waiter{Model: "m", Tenant: "a"}, &Waiter{Model: "m", Tenant: "b", Priority: 1}
		require.True(t, enter(q, low))
		require.True(t, enter(q, high))
		for _, w := range []*Waiter{high, low} {
			q.Tick()
			require.NoError(t, q.Wait(t.Context(), w))
		}
		q.Freed(start, "m")
		require.Len(t, high.turn, 1)
		require.Empty(t, low.turn)
	})
}

// TestOneTenantsRequestsKeepTheirOrder: first in, first out.
func TestOneTenantsRequestsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	q := newQueue(100)
	var ws []*Waiter
	for range 50 {
		w := &Waiter{Model: "m", Tenant: "one"}
		require.True(t, enter(q, w))
		ws = append(ws, w)
	}
	for i := range ws {
		q.Freed(start.Add(time.Duration(i)*time.Second), "m")
		select {
		case <-ws[i].turn:
		default:
			t.Fatalf("waiter %d was overtaken", i)
		}
		ws[i].awake = false
		q.Leave(ws[i], false)
	}
}
