// Package kittest is what tests of all services share. Production code does not import it.
package kittest

import (
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// waitLimit ends waits that would hang a test run. It asserts nothing about speed: the suite runs on busy machines.
const waitLimit = 30 * time.Second

// Leak runs a package's tests and fails when goroutines are left. Use it as TestMain's body.
func Leak(m *testing.M, opts ...goleak.Option) {
	goleak.VerifyTestMain(m, append(LeakOptions(), opts...)...)
}

// LeakOptions are the exceptions that hold for all packages: goroutines that libraries start once per process and never
// end.
func LeakOptions() []goleak.Option {
	return []goleak.Option{
		// nats-server samples its own process in a timer that outlives Shutdown.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/pse.periodic"),
	}
}

// Logger writes debug and higher to the test's output. After the test has ended it writes nowhere.
func Logger(t testing.TB) *slog.Logger {
	w := &testWriter{out: t.Output()}
	t.Cleanup(w.close)
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// testWriter guards the test's output, which must not be used once the test is over.
type testWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out == nil {
		return len(p), nil
	}
	return w.out.Write(p)
}

func (w *testWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = nil
}

// Recv returns the next value of ch and fails the test if none comes or ch is closed.
func Recv[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-ch:
		if !ok {
			t.Fatal("the channel was closed without a value")
		}
		return v
	case <-time.After(waitLimit):
		t.Fatalf("nothing received within %s", waitLimit)
	}
	var zero T
	return zero
}

// Closed waits until ch is closed, ignoring values, and fails the test if it is not.
func Closed[T any](t testing.TB, ch <-chan T) {
	t.Helper()
	limit := time.After(waitLimit)
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return
			}
		case <-limit:
			t.Fatalf("the channel was not closed within %s", waitLimit)
		}
	}
}

// Eventually asks check until it returns nil and fails the test with its last answer. It is for states of other
// processes and libraries that offer no event; use a signal for one's own.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	limit := time.After(waitLimit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within %s: %v", waitLimit, err)
		}
	}
}

// Clock is a clock that a test moves. Now fits Deps.Clock fields. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock starts at a fixed time, the same in every test.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)} }

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
