package admit

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Unix(7000, 0)

func newQueue(waiting int) *Queue { return New(Config{MaxWaiting: waiting, MaxTenants: 100}, start) }

// awake returns the waiters that have their turn, by tenant.
func awake(ws []*Waiter) []string {
	var out []string
	for _, w := range ws {
		select {
		case <-w.turn:
			out = append(out, w.Tenant)
		default:
		}
	}
	return out
}

func TestBoundIsExact(t *testing.T) {
	t.Parallel()
	q := newQueue(2)
	a, b, c := &Waiter{Model: "m"}, &Waiter{Model: "n"}, &Waiter{Model: "m"}
	require.True(t, q.Enter(a))
	require.True(t, q.Enter(b))
	require.False(t, q.Enter(c), "one too many over all models")
	q.Leave(a, false)
	require.True(t, q.Enter(c))
	require.Equal(t, 2, q.Waiting())
}

func TestTurnsGoByPriorityThenUseThenArrival(t *testing.T) {
	t.Parallel()
	q := newQueue(10)
	ws := []*Waiter{
		{Model: "m", Tenant: "heavy"},
		{Model: "m", Tenant: "light"},
		{Model: "m", Tenant: "light2"},
		{Model: "m", Tenant: "urgent", Priority: 1},
		{Model: "other", Tenant: "elsewhere"},
	}
	q.Tenants().ChargeInput("heavy", 1000, 0)
	q.Tenants().ChargeInput("urgent", 5000, 0)
	for _, w := range ws {
		require.True(t, q.Enter(w))
	}
	var order []string
	for range 4 {
		q.Freed(start, "m")
		order = append(order, awake(ws)...)
	}
	require.Equal(t, []string{"urgent", "light", "light2", "heavy"}, order)
	q.Freed(start, "m")
	require.Equal(t, []string{"urgent"}, awake(ws), "all have had their turn: the most urgent decides again")
	q.Tick()
	require.Equal(t, []string{"urgent", "elsewhere"}, awake(ws))
}

func TestAPlacedWaiterHandsItsTurnOn(t *testing.T) {
	t.Parallel()
	q := newQueue(10)
	a, b := &Waiter{Model: "m", Tenant: "a"}, &Waiter{Model: "m", Tenant: "b"}
	q.Enter(a)
	q.Enter(b)
	q.Freed(start, "m")
	require.Equal(t, []string{"a"}, awake([]*Waiter{a, b}))
	q.Leave(a, true)
	require.Equal(t, []string{"b"}, awake([]*Waiter{b}))
}

// TestALeavingWaiterDoesNotKeepItsTurn: CANCEL-01.
func TestALeavingWaiterDoesNotKeepItsTurn(t *testing.T) {
	t.Parallel()
	q := newQueue(10)
	a, b := &Waiter{Model: "m", Tenant: "a"}, &Waiter{Model: "m", Tenant: "b"}
	q.Enter(a)
	q.Enter(b)
	q.Freed(start, "m") // a's turn, but a has gone
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	<-a.turn
	require.ErrorIs(t, q.Wait(ctx, a), context.Canceled)
	a.awake = true
	q.Leave(a, false)
	require.NoError(t, q.Wait(t.Context(), b))
	require.Equal(t, 1, q.Waiting())
}

func TestNewcomersQueueBehindTheirEquals(t *testing.T) {
	t.Parallel()
	q := newQueue(10)
	require.False(t, q.Behind("m", 0))
	q.Enter(&Waiter{Model: "m", Priority: 1})
	require.True(t, q.Behind("m", 0))
	require.True(t, q.Behind("m", 1))
	require.False(t, q.Behind("m", 2))
	require.False(t, q.Behind("n", 0))
}

func TestRetryAfterFollowsTheDrainRate(t *testing.T) {
	t.Parallel()
	q := newQueue(100)
	require.Equal(t, time.Second, q.RetryAfter(start, "m"))
	for range 29 {
		q.Enter(&Waiter{Model: "m"})
	}
	require.Equal(t, defaultRetry, q.RetryAfter(start, "m"))
	now := start
	for range 300 { // ten per second
		now = now.Add(100 * time.Millisecond)
		q.Freed(now, "m")
	}
	require.InDelta(t, 3, q.RetryAfter(now, "m").Seconds(), 1)
	require.LessOrEqual(t, q.RetryAfter(now.Add(time.Hour), "m"), time.Minute)
}

func TestForgetDropsUnservedModels(t *testing.T) {
	t.Parallel()
	q := newQueue(10)
	w := &Waiter{Model: "gone"}
	q.Enter(w)
	q.Freed(start, "idle")
	q.Forget(func(string) bool { return false })
	require.Len(t, q.models, 1, "somebody waits")
	q.Leave(w, false)
	q.Forget(func(string) bool { return false })
	require.Empty(t, q.models)
}

// TestFairnessBetweenTenants: Jain's index over served tokens of tenants that always have work, one sending ten times as
// much as the others.
func TestFairnessBetweenTenants(t *testing.T) {
	t.Parallel()
	q := newQueue(1000)
	var ws []*Waiter
	add := func(tenant string) {
		w := &Waiter{Model: "m", Tenant: tenant}
		q.Tenants().Begin(tenant)
		require.True(t, q.Enter(w))
		ws = append(ws, w)
	}
	for range 40 {
		for range 10 {
			add("flood")
		}
		add("x")
		add("y")
	}
	served := map[string]float64{}
	for range 100 {
		q.Freed(start, "m")
		for _, w := range ws {
			select {
			case <-w.turn:
				w.awake = false // one place at a time: the turn is not handed on
				q.Leave(w, false)
				q.Tenants().ChargeInput(w.Tenant, 500, 100)
				q.Tenants().ChargeOutput(w.Tenant, 100)
				served[w.Tenant]++
			default:
			}
		}
	}
	sum, squares := 0.0, 0.0
	for _, v := range served {
		sum += v
		squares += v * v
	}
	require.Len(t, served, 3)
	require.Greater(t, sum*sum/(3*squares), 0.95, fmt.Sprint(served))
}

func TestIdleTenantsDoNotSaveUp(t *testing.T) {
	t.Parallel()
	c := NewTenants(10)
	c.Begin("busy")
	c.ChargeInput("busy", 1000, 0)
	c.Begin("back")
	require.InDelta(t, 1000, c.Spent("back"), 0)
	c.ChargeOutput("back", 10)
	require.InDelta(t, 1020, c.Spent("back"), 0)
	c.ChargeInput("back", 0, 100)
	require.InDelta(t, 1030, c.Spent("back"), 1e-9)
	c.End("back")
	c.End("back")
	c.Begin("back")
	require.InDelta(t, 1030, c.Spent("back"), 1e-9, "a counter never falls")
}

func TestTenantsAreBounded(t *testing.T) {
	t.Parallel()
	c := NewTenants(3)
	for i := range 100 {
		name := fmt.Sprint(i)
		c.Begin(name)
		c.End(name)
	}
	require.LessOrEqual(t, c.Len(), 3)
	for i := range 100 {
		c.Begin(fmt.Sprint("active", i))
	}
	require.LessOrEqual(t, c.Len(), 4, "and the nameless")
	c.ChargeInput("one more", 7, 0)
	require.InDelta(t, c.Spent(""), c.Spent("another"), 0)
	require.False(t, math.IsInf(c.least(), 1))
}
