package breaker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBreakerKeepsItsPromises runs random lives and checks, at every step, what the documentation promises.
func TestBreakerKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 3))
		b, now := New(config()), start
		out := map[uint64]bool{} // requests under way
		row := 0                 // failures in a row while closed
		for n := uint64(1); n < 200; n++ {
			now = now.Add(time.Duration(r.IntN(700)) * time.Millisecond)
			before := b.State(now)
			if b.Allows(now) {
				require.NotEqual(t, Open, before)
				b.Sent(now, n)
				out[n] = true
				if before == HalfOpen {
					require.False(t, b.Allows(now), "one probe at a time")
				}
			}
			for id := range out {
				if r.IntN(3) == 0 {
					continue
				}
				delete(out, id)
				v := Verdict(r.IntN(3))
				was := b.State(now)
				b.Done(now, id, v)
				row = follow(t, b, follower{now: now, was: was, verdict: v, row: row})
			}
		}
	}
}

type follower struct {
	now     time.Time
	was     State
	verdict Verdict
	row     int
}

// follow counts failures in a row while the breaker is closed and checks that just the third one opens it.
func follow(t *testing.T, b *Breaker, f follower) int {
	t.Helper()
	state := b.State(f.now)
	if f.was != Closed {
		if state == Closed {
			require.Equal(t, Alive, f.verdict, "only an answer closes")
		}
		return 0
	}
	switch f.verdict {
	case Alive:
		require.Equal(t, Closed, state)
		return 0
	case Silent:
		require.Equal(t, Closed, state)
		return f.row
	}
	if f.row+1 == config().Failures {
		require.Equal(t, Open, state)
		return 0
	}
	require.Equal(t, Closed, state)
	return f.row + 1
}
