package e2e

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvmesh/kvmesh/services/meshd/internal/supervise"
)

const (
	// churnWorkers is the fleet, churnDeaths how many kills it sees under load.
	churnWorkers, churnDeaths = 4, 16
	// churnCalls are answered between two events: one worker is always left, or has come back.
	churnCalls = 4
)

// TestChurn is CANCEL-09: workers are killed and started again at random under load. Every call ends within its
// deadline, with an answer or an error that says so; then nothing is in flight and the whole fleet is exact again.
func TestChurn(t *testing.T) {
	m := startIndependent(t, churnWorkers, 0)
	c := newCaller(m.URL(t))
	t.Cleanup(c.http.CloseIdleConnections)
	exact(t, c, churnWorkers)
	l := startLoad(t, m.URL(t))
	random := rand.New(rand.NewPCG(9, 1))
	var down []int
	for died := 0; died < churnDeaths || len(down) > 0; {
		l.awaitWhole(t, churnCalls)
		worker := random.IntN(churnWorkers)
		if died < churnDeaths && len(down) < churnWorkers-1 && !slices.Contains(down, worker) {
			m.kill(t, supervise.SimulatedName(worker))
			down = append(down, worker)
			died++
			continue
		}
		if len(down) > 0 {
			m.start(t, supervise.SimulatedName(down[0]))
			down = down[1:]
		}
	}
	exact(t, c, churnWorkers)
	l.awaitWhole(t, churnCalls)
	l.stop()
	text, _ := l.take(t)
	t.Logf("%d deaths among %d workers: %s", churnDeaths, churnWorkers, text)
	idle(t, c)
	t.Logf("every conversation hit as predicted: %d tokens", truth(t, c, l.talks))
}
