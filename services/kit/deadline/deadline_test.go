package deadline_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/deadline"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

type key struct{}

// TestAsContext compares with package context in every order of looking and ending.
func TestAsContext(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{time.Second, 5 * time.Second} { // before and after the parent's own
		for _, end := range []string{"nothing", "parent", "end", "time", "parent then time", "end then parent"} {
			for _, look := range []string{"never", "done first", "child first", "err first"} {
				t.Run(fmt.Sprintf("%s/%s/%s", limit, end, look), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { compare(t, limit, end, look) })
				})
			}
		}
	}
}

func compare(t *testing.T, limit time.Duration, end, look string) {
	t.Helper()
	root := context.WithValue(t.Context(), key{}, "v")
	parent, cancelParent := context.WithTimeout(root, 3*time.Second)
	defer cancelParent()
	got := deadline.With(parent, limit)
	defer got.End()
	want, cancelWant := context.WithTimeout(parent, limit)
	defer cancelWant()

	var child context.Context
	switch look {
	case "done first":
		require.NotNil(t, got.Done())
	case "child first":
		var cancel context.CancelFunc
		child, cancel = context.WithCancel(got)
		defer cancel()
	case "err first":
		require.NoError(t, got.Err())
	}
	switch end {
	case "parent":
		cancelParent()
	case "end":
		got.End()
		got.End()
		cancelWant()
	case "time":
		time.Sleep(10 * time.Second)
	case "parent then time":
		cancelParent()
		time.Sleep(10 * time.Second)
	case "end then parent":
		got.End()
		cancelWant()
		cancelParent()
	}
	synctest.Wait()
	require.Equal(t, want.Err(), got.Err())
	require.Equal(t, context.Cause(want), context.Cause(got))
	require.Equal(t, "v", got.Value(key{}))
	a, hasA := want.Deadline()
	b, hasB := got.Deadline()
	require.Equal(t, hasA, hasB)
	require.WithinDuration(t, a, b, 0)
	closed := func(c context.Context) bool {
		select {
		case <-c.Done():
			return true
		default:
			return false
		}
	}
	require.Equal(t, closed(want), closed(got))
	if child != nil {
		require.Equal(t, closed(want), closed(child))
		require.Equal(t, want.Err(), child.Err())
	}
	require.Equal(t, want.Err(), got.Err(), "an error stays")
}

// TestNoDeadline ends with its parent alone.
func TestNoDeadline(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancel(t.Context())
	var c deadline.Context
	c.Start(parent, time.Time{})
	defer c.End()
	_, has := c.Deadline()
	require.False(t, has)
	require.NoError(t, c.Err())
	cancel()
	require.ErrorIs(t, c.Err(), context.Canceled)
	<-c.Done()
}

// TestChildrenNeedNoGoroutine: a context made from one joins it as it would join one of package context.
func TestChildrenNeedNoGoroutine(t *testing.T) { //nolint:paralleltest // it counts goroutines
	c := deadline.With(t.Context(), time.Hour)
	defer c.End()
	before := runtime.NumGoroutine()
	for range 100 {
		child, cancel := context.WithCancel(c)
		defer cancel()
		require.NoError(t, child.Err())
	}
	require.Less(t, runtime.NumGoroutine(), before+50)
}

// BenchmarkWith is what a bound costs that nobody waits for.
func BenchmarkWith(b *testing.B) {
	parent, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.Run("timer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c, end := context.WithTimeout(parent, time.Second)
			_ = c.Err()
			end()
		}
	})
	b.Run("deadline", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c := deadline.With(parent, time.Second)
			_ = c.Err()
			c.End()
		}
	})
}
