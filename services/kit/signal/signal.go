// Package signal lets a test wait for an event inside production code. Production code holds a Signal by value and
// fires it; unless a test has armed it, firing is one comparison with nil.
package signal

import "time"

// Signal announces events of one kind. The zero value ignores Fire. Arm it before the code that fires it starts.
type Signal[T any] struct{ events chan T }

// waitLimit ends a wait that would hang a test run; it is no assertion of speed.
const waitLimit = 30 * time.Second

// TB is the part of testing.TB that waiting needs, so that production code does not link package testing.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Arm makes the signal keep up to capacity events that nobody has waited for yet.
func (s *Signal[T]) Arm(capacity int) { s.events = make(chan T, capacity) }

// Fire announces an event. On an armed signal whose buffer is full the event is dropped: a production goroutine never
// waits for a test.
func (s *Signal[T]) Fire(v T) {
	if s.events == nil {
		return
	}
	select {
	case s.events <- v:
	default:
	}
}

// Wait returns the next event and fails the test if none comes.
func (s *Signal[T]) Wait(t TB) T {
	t.Helper()
	timer := time.NewTimer(waitLimit)
	defer timer.Stop()
	select {
	case v := <-s.events:
		return v
	case <-timer.C:
		t.Fatalf("no event within %s", waitLimit)
	}
	var zero T
	return zero
}

// Pending is the number of events that nobody has waited for.
func (s *Signal[T]) Pending() int { return len(s.events) }
