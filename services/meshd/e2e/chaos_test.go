package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/meshd/internal/supervise"
)

const (
	// rightLimit bounds the way back of the index after a part is back; the time itself is printed.
	rightLimit = 10 * time.Second
	// lossOneIn is the share of messages that event sockets lose, and the bus.
	lossOneIn = 100
	// busOutage is how long NATS stays away while the mesh goes on: longer than a card's lease.
	busOutage = 5 * time.Second
)

// blow is one part that is killed under load and started again.
type blow struct {
	part, process string
	// fresh is true when the worker's stream must be of a new epoch afterwards.
	fresh bool
}

func TestChaos(t *testing.T) {
	m := startIndependent(t, workerCount, 2*lossOneIn) // each way: two of them are between adapter and scheduler
	c := newCaller(m.URL(t))
	t.Cleanup(c.http.CloseIdleConnections)
	exact(t, c, workerCount)
	adapters := dialMirrors(t, m)
	for i := range workerCount {
		dropEvents(t, m, i)
	}
	l := startLoad(t, m.URL(t))
	l.awaitWhole(t, 100)
	for _, b := range []blow{
		{"scheduler", "scheduler", false},
		{"adapter", supervise.AdapterName(0), true},
		{"worker", supervise.SimulatedName(0), true},
		{"NATS", "nats", false},
		{"template", "template", false},
		{"tokenizer", "tokenizer", false},
		{"gateway", "gateway", false},
	} {
		t.Run(b.part+" killed", func(t *testing.T) { strike(t, m, l, b) })
	}
	t.Run("worker frozen", func(t *testing.T) { frozen(t, m, l) })
	t.Run("NATS gone for a while", func(t *testing.T) { busGone(t, m, l) })
	l.stop()
	text, _ := l.take(t)
	lost := m.bus.lost.Load()
	t.Logf("afterwards: %s; the bus lost %d of %d messages", text, lost, lost+m.bus.passed.Load())
	idle(t, c)
	for i := range workerCount {
		eventually(t, rightLimit, func() error { return adapters.right(t.Context(), c, i, 0) })
		at := newCaller(m.WorkerURL(t, i))
		require.Zero(t, running(t, at))
		at.http.CloseIdleConnections()
	}
	t.Logf("every conversation hit as predicted: %d tokens", truth(t, c, l.talks))
}

// dropEvents makes a worker lose every hundredth message of its event socket.
func dropEvents(t *testing.T, m *many, worker int) {
	t.Helper()
	at := newCaller(m.WorkerURL(t, worker))
	defer at.http.CloseIdleConnections()
	at.mustPost(t, "/fakevllm/faults", map[string]int{"drop_event_one_in": lossOneIn}, http.StatusOK)
}

// strike kills a part under load and starts it again.
func strike(t *testing.T, m *many, l *load, b blow) {
	c := newCaller(m.URL(t))
	defer c.http.CloseIdleConnections()
	adapters := dialMirrors(t, m)
	var after uint64
	if b.fresh {
		before, err := adapters.snapshot(t.Context(), 0)
		require.NoError(t, err)
		after = before.Epoch
	}
	l.take(t)
	l.doorClosed(b.part == "gateway")
	m.kill(t, b.process)
	l.awaitEnded(t, 2*loadCallers)
	began := time.Now()
	m.start(t, b.process)
	back := time.Now()
	if b.part == "worker" {
		dropEvents(t, m, 0)
	}
	if b.part == "gateway" {
		l.awaitWhole(t, 2*loadCallers) // what broke off with the old one has been told
		l.doorClosed(false)
	}
	first := recovery{back: back}
	eventually(t, rightLimit, func() error { return adapters.rightBy(t.Context(), c, 0, after, &first) })
	right := time.Since(back)
	eventually(t, rightLimit, func() error { return adapters.right(t.Context(), c, 1, 0) })
	all := time.Since(back)
	eventually(t, rightLimit, func() error { return exactAnswer(t, c, b.part) })
	answer := time.Since(back)
	l.awaitWhole(t, 4*loadCallers)
	text, _ := l.take(t)
	t.Logf("%s: ready after %s; from then index right %s (%s; all workers %s), exact answer %s; calls: %s", b.part,
		back.Sub(began).Round(time.Millisecond), right.Round(time.Millisecond), &first, all.Round(time.Millisecond),
		answer.Round(time.Millisecond), text)
}

// exactAnswer asks until a whole answer came of an exact prediction.
func exactAnswer(t *testing.T, c *caller, topic string) error {
	t.Helper()
	got, err := ask(t.Context(), c, conversation("after "+topic), false)
	require.NoError(t, err)
	if got.ending != whole || got.certainty != "exact" {
		return fmt.Errorf("answer is %s, status %d, certainty %q", got.ending, got.status, got.certainty)
	}
	return nil
}

// frozen stops a worker without ending it: its port still takes connections and its lease still holds. Once its adapter
// calls it sick nothing is sent there, and calls that were there end, elsewhere or as broken streams, while it still
// stands. When it goes on its index is right.
func frozen(t *testing.T, m *many, l *load) {
	c := newCaller(m.URL(t))
	defer c.http.CloseIdleConnections()
	adapters := dialMirrors(t, m)
	l.take(t)
	require.NoError(t, m.set.Signal(supervise.SimulatedName(0), syscall.SIGSTOP))
	began := time.Now()
	eventually(t, callLimit, func() error {
		index, err := indexOf(t.Context(), c, workerID(0))
		if err == nil && index.state == "WORKER_STATE_READY" {
			err = errors.New("the frozen worker is still called ready")
		}
		return err
	})
	out := time.Since(began)
	for i := range workerCount {
		got, err := ask(t.Context(), c, conversation(fmt.Sprintf("frozen %d", i)), i%2 == 1)
		require.NoError(t, err)
		require.Equal(t, whole, got.ending)
		require.Equal(t, workerID(1), got.worker)
	}
	eventually(t, callLimit, func() error {
		f, err := fleetOf(t.Context(), c)
		if err != nil {
			return err
		}
		for _, w := range f.Workers {
			if w.Card.ID == workerID(0) && w.Inflight > 0 {
				return errCount("calls at the frozen worker", w.Inflight, 0)
			}
		}
		return nil
	})
	left := time.Since(began)
	require.NoError(t, m.set.Signal(supervise.SimulatedName(0), syscall.SIGCONT))
	back := time.Now()
	steps := recovery{back: back}
	for i := range workerCount {
		eventually(t, rightLimit, func() error { return adapters.rightBy(t.Context(), c, i, 0, &steps) })
	}
	right := time.Since(back)
	l.awaitWhole(t, 4*loadCallers)
	text, broken := l.take(t)
	require.LessOrEqual(t, broken, loadCallers, "only begun streams break: %s", text)
	t.Logf("worker frozen for %s: out of the candidates after %s, its calls ended after %s; index right %s (%s) after it "+
		"goes on; calls: %s", back.Sub(began).Round(time.Millisecond), out.Round(time.Millisecond),
		left.Round(time.Millisecond), right.Round(time.Millisecond), &steps, text)
}

// busGone takes NATS away for longer than a lease: every call still ends whole, by the last view, and the index comes
// right by itself when NATS is back.
func busGone(t *testing.T, m *many, l *load) {
	c := newCaller(m.URL(t))
	defer c.http.CloseIdleConnections()
	adapters := dialMirrors(t, m)
	l.awaitWhole(t, 2*loadCallers) // calls that an earlier part's death broke have ended
	l.take(t)
	m.kill(t, "nats")
	gone := time.Now()
	eventually(t, 2*busOutage, func() error {
		if away := time.Since(gone); away < busOutage {
			return fmt.Errorf("NATS is away for %s of %s", away, busOutage)
		}
		return nil
	})
	_, served := l.progress()
	l.awaitWhole(t, 4*loadCallers)
	text, broken := l.take(t)
	require.Zero(t, broken, "calls broke while NATS was away: %s", text)
	m.start(t, "nats")
	back := time.Now()
	steps := recovery{back: back}
	for i := range workerCount {
		eventually(t, rightLimit, func() error { return adapters.rightBy(t.Context(), c, i, 0, &steps) })
	}
	right := time.Since(back)
	l.awaitWhole(t, 4*loadCallers)
	after, broken := l.take(t)
	require.Zero(t, broken, "calls broke after NATS was back: %s", after)
	t.Logf("NATS away %s: %s (%d whole in all); index right again %s after it is back (%s)", busOutage, text, served,
		right.Round(time.Millisecond), &steps)
}
