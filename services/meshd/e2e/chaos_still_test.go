package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/meshd/internal/supervise"
)

// stillFor is how long a part stands still: longer than a card's lease.
const stillFor = 4 * time.Second

// TestStandstill stops each part under load without ending it, and lets it go on: no call hangs, and the index comes right
// by itself.
func TestStandstill(t *testing.T) {
	m := startIndependent(t, workerCount, 2*lossOneIn)
	c := newCaller(m.URL(t))
	t.Cleanup(c.http.CloseIdleConnections)
	exact(t, c, workerCount)
	adapters := dialMirrors(t, m)
	l := startLoad(t, m.URL(t))
	l.awaitWhole(t, 100)
	for _, part := range []struct{ name, process string }{
		{"scheduler", "scheduler"},
		{"adapter", supervise.AdapterName(0)},
		{"NATS", "nats"},
		{"template", "template"},
		{"tokenizer", "tokenizer"},
	} {
		t.Run(part.name, func(t *testing.T) {
			l.awaitWhole(t, 2*loadCallers)
			l.take(t)
			require.NoError(t, m.set.Signal(part.process, syscall.SIGSTOP))
			began := time.Now()
			eventually(t, 2*stillFor, func() error {
				if still := time.Since(began); still < stillFor {
					return fmt.Errorf("it stands still for %s of %s", still, stillFor)
				}
				return nil
			})
			require.NoError(t, m.set.Signal(part.process, syscall.SIGCONT))
			back := time.Now()
			steps := recovery{back: back}
			for i := range workerCount {
				eventually(t, rightLimit, func() error { return adapters.rightBy(t.Context(), c, i, 0, &steps) })
			}
			right := time.Since(back)
			eventually(t, rightLimit, func() error { return exactAnswer(t, c, "still "+part.name) })
			answer := time.Since(back)
			l.awaitWhole(t, 4*loadCallers)
			text, broken := l.take(t)
			require.Zero(t, broken, "a worker was there all the time: %s", text)
			t.Logf("%s stood still for %s; index right %s (%s), exact answer %s after it goes on; calls: %s", part.name, stillFor,
				right.Round(time.Millisecond), &steps, answer.Round(time.Millisecond), text)
		})
	}
}
