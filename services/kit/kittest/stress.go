package kittest

import (
	"context"
	"sync"
	"testing"
)

// StartStopper is the contract of everything that is started and stopped: Start returns once it works, Stop blocks
// until it does not, and Stop may come twice, without Start, and from several goroutines.
type StartStopper interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

// StressStartStop holds fresh instances to that contract. Run it under the race detector with a leak check.
func StressStartStop(t *testing.T, fresh func() StartStopper) {
	t.Helper()
	ctx := t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for range 20 {
		s := fresh()
		must("start", s.Start(ctx))
		must("stop", s.Stop(ctx))
		must("stop again", s.Stop(ctx))

		must("stop without start", fresh().Stop(ctx))

		s = fresh()
		must("start", s.Start(ctx))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { check(t, s.Stop(ctx)) })
		}
		wg.Wait()
	}
}

// check reports from goroutines other than the test's, which may not end it.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("concurrent stop: %v", err)
	}
}
