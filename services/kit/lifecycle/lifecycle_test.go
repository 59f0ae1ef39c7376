package lifecycle_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/lifecycle"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// journal notes events in order.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) add(e string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

func (j *journal) component(name string, needs ...string) lifecycle.Component {
	return lifecycle.Component{
		Name: name, Needs: needs,
		Start: func(context.Context) error { j.add("+" + name); return nil },
		Run:   func(ctx context.Context) error { <-ctx.Done(); return nil },
		Stop:  func(context.Context) error { j.add("-" + name); return nil },
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	var j journal
	g, err := lifecycle.NewGroup(kittest.Logger(t),
		j.component("gateway", "scheduler", "bus"), j.component("scheduler", "bus"), j.component("bus"), j.component("x"))
	require.NoError(t, err)
	require.NoError(t, g.Start(t.Context()))
	require.NoError(t, g.Ready(t.Context()))
	require.NoError(t, g.Stop(t.Context()))
	require.NoError(t, g.Stop(t.Context()))
	require.NoError(t, g.Err())
	require.Equal(t, []string{"+bus", "+scheduler", "+gateway", "+x", "-x", "-gateway", "-scheduler", "-bus"}, j.events)
}

// TestNotStartedIsNotReady looks at a group from inside its start and its stop: what does not run is not ready, even
// without a Ready of its own.
func TestNotStartedIsNotReady(t *testing.T) {
	t.Parallel()
	var g *lifecycle.Group
	var seen []string
	look := func(when string) {
		for _, n := range g.NotReady(t.Context()) {
			when += " " + n.Name
		}
		seen = append(seen, when)
	}
	part := func(name string) lifecycle.Component {
		return lifecycle.Component{
			Name:  name,
			Start: func(context.Context) error { look("start of " + name + ":"); return nil },
			Stop:  func(context.Context) error { look("stop of " + name + ":"); return nil },
		}
	}
	g, err := lifecycle.NewGroup(kittest.Logger(t), part("a"), part("b"))
	require.NoError(t, err)
	look("before:")
	require.NoError(t, g.Start(t.Context()))
	look("up:")
	require.NoError(t, g.Stop(t.Context()))
	require.Error(t, g.Ready(t.Context()))
	require.Equal(t, []string{
		"before: a b", "start of a: a b", "start of b: b", "up:", "stop of b: b", "stop of a: a b",
	}, seen)
}

// TestStartErrorsNameAPartOnce: whether a part fails in its Start or in its Run, and whoever waits for it.
func TestStartErrorsNameAPartOnce(t *testing.T) {
	t.Parallel()
	disk := errors.New("disk full")
	never := func(context.Context) error { return errors.New("loading") }
	for name, row := range map[string]struct {
		parts []lifecycle.Component
		want  string
	}{
		"in its start": {[]lifecycle.Component{{Name: "a", Start: func(context.Context) error { return disk }}}, "start a: disk full"},
		"in its run": {
			[]lifecycle.Component{{Name: "a", Run: func(context.Context) error { return disk }, Ready: never}}, "start a: disk full",
		},
		"another one's run": {[]lifecycle.Component{
			{Name: "a", Run: func(context.Context) error { return disk }}, {Name: "b", Needs: []string{"a"}, Ready: never},
		}, "start b: a: disk full"},
	} {
		g, err := lifecycle.NewGroup(kittest.Logger(t), row.parts...)
		require.NoError(t, err)
		err = g.Start(t.Context())
		require.EqualError(t, err, row.want, name)
		require.ErrorIs(t, err, disk, name)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	var j journal
	for want, list := range map[string][]lifecycle.Component{
		"a -> b -> c -> a":  {j.component("a", "b"), j.component("b", "c"), j.component("c", "a")},
		"a -> a":            {j.component("a", "a")},
		"which does not":    {j.component("a", "nobody")},
		"used twice":        {j.component("a"), j.component("a")},
		"is empty or used ": {j.component("")},
	} {
		_, err := lifecycle.NewGroup(kittest.Logger(t), list...)
		require.ErrorContains(t, err, want)
	}
}

// TestRandomGraphs: whatever the graph, needs start before and stop after.
func TestRandomGraphs(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		var j journal
		n := 1 + rnd.IntN(12)
		list := make([]lifecycle.Component, n)
		for i := range list {
			var needs []string
			for k := range i {
				if rnd.IntN(3) == 0 {
					needs = append(needs, strconv.Itoa(k))
				}
			}
			list[i] = j.component(strconv.Itoa(i), needs...)
		}
		rnd.Shuffle(n, func(a, b int) { list[a], list[b] = list[b], list[a] })
		g, err := lifecycle.NewGroup(kittest.Logger(t), list...)
		require.NoError(t, err)
		require.NoError(t, g.Start(t.Context()))
		require.NoError(t, g.Stop(t.Context()))
		at := map[string]int{}
		for i, e := range j.events {
			at[e] = i
		}
		require.Len(t, at, 2*n)
		for _, c := range list {
			for _, need := range c.Needs {
				require.Less(t, at["+"+need], at["+"+c.Name])
				require.Greater(t, at["-"+need], at["-"+c.Name])
			}
		}
	}
}

func TestFailedStartUnwinds(t *testing.T) {
	t.Parallel()
	var j journal
	bad := j.component("bad", "good")
	bad.Start = func(context.Context) error { return errors.New("port taken") }
	g, err := lifecycle.NewGroup(kittest.Logger(t), bad, j.component("good"), j.component("later", "bad"))
	require.NoError(t, err)
	require.EqualError(t, g.Start(t.Context()), "start bad: port taken")
	require.Equal(t, []string{"+good", "-good"}, j.events)
}

func TestRunFailureIsTold(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		err  error
		want string
	}{
		{"error", errors.New("disk full"), "w: disk full"},
		{"silent end", nil, "w: ended although nobody stopped it"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			fail := make(chan struct{})
			g, err := lifecycle.NewGroup(kittest.Logger(t), lifecycle.Component{
				Name: "w", Run: func(context.Context) error { <-fail; return row.err },
			})
			require.NoError(t, err)
			require.NoError(t, g.Start(t.Context()))
			close(fail)
			kittest.Closed(t, g.Done())
			require.EqualError(t, g.Err(), row.want)
			require.NoError(t, g.Stop(t.Context()))
		})
	}
}

func TestReadyIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var why error
		slow := lifecycle.Component{Name: "slow", Ready: func(context.Context) error {
			if time.Since(begin) < time.Minute {
				return errors.New("loading")
			}
			return why
		}}
		var j journal
		g, err := lifecycle.NewGroup(kittest.Logger(t), slow, j.component("after", "slow"))
		require.NoError(t, err)
		require.NoError(t, g.Start(t.Context()))
		require.InDelta(t, 60, time.Since(begin).Seconds(), 0.3)
		why = errors.New("sick")
		require.EqualError(t, g.Ready(t.Context()), "slow: sick")
		require.Equal(t, []lifecycle.NotReady{{Name: "slow", Why: "sick"}}, g.NotReady(t.Context()))
		require.NoError(t, g.Stop(t.Context()))

		begin = time.Now()
		late := slow
		late.Late = true
		g, err = lifecycle.NewGroup(kittest.Logger(t), late, j.component("beside", "slow"))
		require.NoError(t, err)
		require.NoError(t, g.Start(t.Context()))
		require.Zero(t, time.Since(begin), "what is late is not waited for")
		require.Equal(t, []lifecycle.NotReady{{Name: "slow", Why: "loading"}}, g.NotReady(t.Context()))
		require.NoError(t, g.Stop(t.Context()))

		begin = time.Now()
		g, err = lifecycle.NewGroup(kittest.Logger(t), slow)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = g.Start(ctx)
		require.ErrorContains(t, err, "loading")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// TestReadyEndsWhenRunFails: a component that died while it was awaited fails the start at once.
func TestReadyEndsWhenRunFails(t *testing.T) {
	t.Parallel()
	g, err := lifecycle.NewGroup(kittest.Logger(t), lifecycle.Component{
		Name:  "dead",
		Run:   func(context.Context) error { return errors.New("no files") },
		Ready: func(context.Context) error { return errors.New("loading") },
	})
	require.NoError(t, err)
	require.ErrorContains(t, g.Start(t.Context()), "no files")
}

func TestGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		g, err := lifecycle.NewGroup(kittest.Logger(t), lifecycle.Component{
			Name: "deaf", Grace: time.Second, Run: func(context.Context) error { <-release; return nil },
		})
		require.NoError(t, err)
		require.NoError(t, g.Start(t.Context()))
		require.EqualError(t, g.Stop(t.Context()), "stop deaf: still running after 1s")
		close(release)
	})
}

// TestCutGrace: a stop that is cut short names no grace that nobody waited for.
func TestCutGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		g, err := lifecycle.NewGroup(kittest.Logger(t), lifecycle.Component{
			Name: "deaf", Grace: time.Minute, Run: func(context.Context) error { <-release; return nil },
		})
		require.NoError(t, err)
		require.NoError(t, g.Start(t.Context()))
		now, cancel := context.WithCancel(t.Context())
		cancel()
		require.EqualError(t, g.Stop(now), "stop deaf: still running when its grace was cut short")
	})
}

func TestStack(t *testing.T) {
	t.Parallel()
	var s lifecycle.Stack
	var j journal
	for _, name := range []string{"a", "b", "c"} {
		s.Push(name, func(context.Context) error {
			j.add(name)
			if name == "b" {
				return errors.New("stuck")
			}
			return nil
		})
	}
	require.EqualError(t, s.Close(t.Context()), "close b: stuck")
	require.NoError(t, s.Close(t.Context()))
	require.Equal(t, []string{"c", "b", "a"}, j.events)
}

func TestGroupStress(t *testing.T) {
	t.Parallel()
	kittest.StressStartStop(t, func() kittest.StartStopper {
		var j journal
		g, err := lifecycle.NewGroup(kittest.Logger(t), j.component("b", "a"), j.component("a"))
		require.NoError(t, err)
		return g
	})
}
