package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stillFor is how long NATS stands still: longer than a card's lease.
const stillFor = 4 * time.Second

// TestNATSStandsStill stops NATS under load without ending it, and lets it go on: every call is answered, and the index comes
// right by itself.
func TestNATSStandsStill(t *testing.T) {
	m := startIndependent(t, workerCount, 2*lossOneIn)
	c := newCaller(m.URL(t))
	t.Cleanup(c.http.CloseIdleConnections)
	exact(t, c, workerCount)
	adapters := dialMirrors(t, m)
	l := startLoad(t, m.URL(t))
	l.awaitWhole(t, 2*loadCallers)
	l.take(t)
	require.NoError(t, m.set.Signal("nats", syscall.SIGSTOP))
	began := time.Now()
	eventually(t, 2*stillFor, func() error {
		if still := time.Since(began); still < stillFor {
			return fmt.Errorf("it stands still for %s of %s", still, stillFor)
		}
		return nil
	})
	require.NoError(t, m.set.Signal("nats", syscall.SIGCONT))
	steps := recovery{back: time.Now()}
	for i := range workerCount {
		eventually(t, rightLimit, func() error { return adapters.rightBy(t.Context(), c, i, 0, &steps) })
	}
	right := time.Since(steps.back)
	l.awaitWhole(t, 4*loadCallers)
	text, broken := l.take(t)
	require.Zero(t, broken, "the workers were there all the time: %s", text)
	t.Logf("NATS stood still for %s; index right %s (%s) after it goes on; calls: %s", stillFor,
		right.Round(time.Millisecond), &steps, text)
}
