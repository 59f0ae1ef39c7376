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

// enter is for a request of a line of its model alone, with no room for anybody: unless somebody decides already, all try in
// vain.
func enter(q *Queue, w *Waiter) bool {
	if w.Line == "" {
		w.Line = w.Model
	}
	l := q.lines[w.Line]
	busy := l != nil && l.deciding()
	w.Look = q.Look(w.Line, w.Model, w.Priority)
	entered := q.Enter(w)
	if !busy {
		inVain(q.lines[w.Line])
	}
	return entered
}

// inVain has everybody in a line try, and find no room.
func inVain(l *line) {
	for _, w := range l.waiters {
		awake([]*Waiter{w})
		w.awake = false
		l.fail(w)
	}
}

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
	require.True(t, enter(q, a))
	require.True(t, enter(q, b))
	require.False(t, enter(q, c), "one too many over all models")
	q.Leave(a, false)
	require.True(t, enter(q, c))
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
		require.True(t, enter(q, w))
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
	enter(q, a)
	enter(q, b)
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
	enter(q, a)
	enter(q, b)
	q.Freed(start, "m") // a's turn, but a has gone
	q.Leave(a, false)
	require.NoError(t, q.Wait(t.Context(), b))
	require.Equal(t, 1, q.Waiting())
}

func TestNewcomersQueueBehindTheirEquals(t *testing.T) {
	t.Parallel()
	q := newQueue(10)
	require.False(t, q.Look("m", "m", 0).Behind)
	enter(q, &Waiter{Model: "m", Priority: 1})
	require.True(t, q.Look("m", "m", 0).Behind)
	require.True(t, q.Look("m", "m", 1).Behind)
	require.False(t, q.Look("m", "m", 2).Behind)
	require.False(t, q.Look("n", "n", 0).Behind)
}

func TestRetryAfterFollowsTheDrainRate(t *testing.T) {
	t.Parallel()
	q := newQueue(100)
	require.Equal(t, time.Second, q.RetryAfter(start, "m"))
	for range 29 {
		enter(q, &Waiter{Model: "m"})
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
	enter(q, w)
	q.Freed(start, "idle")
	q.Forget(func(string) bool { return false })
	require.Len(t, q.lines, 1, "somebody waits")
	q.Leave(w, false)
	q.Forget(func(string) bool { return false })
	require.Empty(t, q.lines)
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
		require.True(t, enter(q, w))
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

// crowd is a queue whose requests share one line: "a" and "b" are models some of whose targets differ.
type crowd struct {
	t *testing.T
	q *Queue
}

func (c crowd) join(w Waiter) *Waiter {
	c.t.Helper()
	w.Line = "a"
	w.Look = c.q.Look(w.Line, w.Model, w.Priority)
	require.True(c.t, c.q.Enter(&w))
	return &w
}

// vainly has w take its turn, find no room and wait again.
func (c crowd) vainly(w *Waiter) {
	c.t.Helper()
	require.Len(c.t, w.turn, 1, "it has the turn")
	<-w.turn
	gone, cancel := context.WithCancel(c.t.Context())
	cancel()
	require.Error(c.t, c.q.Wait(gone, w))
}

// TestModelsThatShareWorkersShareALine: what ends at one of their workers may be a place for any of them.
func TestModelsThatShareWorkersShareALine(t *testing.T) {
	t.Parallel()
	t.Run("the turn goes to the least served, whatever its model", func(t *testing.T) {
		t.Parallel()
		c := crowd{t, newQueue(10)}
		c.q.Tenants().ChargeInput("heavy", 1000, 0)
		base := c.join(Waiter{Model: "a", Tenant: "heavy"})
		adapter := c.join(Waiter{Model: "b", Tenant: "light"})
		c.q.Freed(start, "a")
		require.Len(t, adapter.turn, 1)
		require.Empty(t, base.turn)
		require.True(t, c.q.Look("a", "a", 0).Behind)
	})
	t.Run("who finds no room hands on to other models, once a round", func(t *testing.T) {
		t.Parallel()
		c := crowd{t, newQueue(10)}
		first, second, other := c.join(Waiter{Model: "b"}), c.join(Waiter{Model: "b"}), c.join(Waiter{Model: "a"})
		for range 3 {
			c.q.Freed(start, "a")
			c.vainly(first)
			require.Empty(t, second.turn, "it may go where the first may go")
			c.vainly(other)
			require.Empty(t, first.turn, "the round is over")
		}
	})
	t.Run("who may not go everywhere says nothing of its model", func(t *testing.T) {
		t.Parallel()
		c := crowd{t, newQueue(10)}
		large, small := c.join(Waiter{Model: "b", Narrow: true}), c.join(Waiter{Model: "b"})
		c.q.Freed(start, "a")
		c.vainly(large)
		require.Len(t, small.turn, 1)
		require.Empty(t, large.turn)
	})
	t.Run("a turn that something has overtaken is tried again", func(t *testing.T) {
		t.Parallel()
		c := crowd{t, newQueue(10)}
		w := c.join(Waiter{Model: "b"})
		c.q.Freed(start, "a")
		<-w.turn
		c.q.Freed(start, "a") // while it decides
		require.NoError(t, c.q.Wait(t.Context(), w))
	})
	t.Run("newcomers go before those who cannot be served now, not before others", func(t *testing.T) {
		t.Parallel()
		c := crowd{t, newQueue(10)}
		adapter := c.join(Waiter{Model: "b"})
		require.False(t, c.q.Look("a", "a", 0).Behind, "it had no room when it came")
		require.True(t, c.q.Look("a", "b", 0).Behind)
		c.q.Freed(start, "a")
		require.True(t, c.q.Look("a", "a", 0).Behind, "it decides")
		c.vainly(adapter)
		require.False(t, c.q.Look("a", "a", 0).Behind)
	})
	t.Run("what ended before a newcomer stood in the line is not lost", func(t *testing.T) {
		t.Parallel()
		c := crowd{t, newQueue(10)}
		w := &Waiter{Line: "a", Model: "a", Look: c.q.Look("a", "a", 0)}
		c.q.Freed(start, "a")
		require.True(t, c.q.Enter(w))
		require.Len(t, w.turn, 1)
	})
	t.Run("a newcomer whom nobody is before any more has its turn", func(t *testing.T) {
		t.Parallel()
		c := crowd{t, newQueue(10)}
		before := c.join(Waiter{Model: "b"})
		c.q.Freed(start, "a")
		look := c.q.Look("a", "a", 0)
		require.True(t, look.Behind)
		c.vainly(before)
		w := &Waiter{Line: "a", Model: "a", Look: look}
		require.True(t, c.q.Enter(w))
		require.Len(t, w.turn, 1)
	})
}
