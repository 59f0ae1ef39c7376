// Package e2e drives whole meshes as a client would. Every scenario runs in two shapes: all services in this process,
// and one process per service over TCP with a real NATS server.
package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

func TestMain(m *testing.M) {
	kittest.Leak(m, goleak.Cleanup(func(code int) {
		if built.own != "" {
			os.RemoveAll(built.own)
		}
		os.Exit(code)
	}))
}

// shape is a running mesh that a scenario can hurt. Workers are numbered from 0.
type shape interface {
	// URL is the REST address.
	URL(t *testing.T) string
	// WorkerURL is the address of a simulated worker.
	WorkerURL(t *testing.T, worker int) string
	// KillWorker ends a worker and its adapter as a crashed machine would: no goodbye.
	KillWorker(t *testing.T, worker int)
	// StartWorker starts both again.
	StartWorker(t *testing.T, worker int)
	// RestartScheduler ends the scheduler and starts it again.
	RestartScheduler(t *testing.T)
}

// workerCount is how many workers every mesh of the suite has.
const workerCount = 2

// model is the demo model's name.
const model = "kvmesh/demo"

// workerID names a worker as its card does.
func workerID(i int) string { return [...]string{"sim-0", "sim-1"}[i] }

// eachShape runs a scenario in both shapes.
func eachShape(t *testing.T, scenario func(t *testing.T, s shape)) {
	t.Helper()
	t.Run("one process", func(t *testing.T) { scenario(t, startOne(t)) })
	t.Run("separate processes", func(t *testing.T) { scenario(t, startMany(t)) })
}

// fleet is what the suite reads of the mesh's list of workers.
type fleet struct {
	Workers []struct {
		Card struct {
			ID         string `json:"worker_id"`
			State      string `json:"state"`
			EventState string `json:"event_state"`
		} `json:"card"`
		Certainty string      `json:"certainty"`
		Units     json.Number `json:"units"`
		Inflight  int         `json:"inflight"`
	} `json:"workers"`
}

func fleetOf(ctx context.Context, c *caller) (fleet, error) {
	var f fleet
	got, err := c.get(ctx, "/kvmesh/v1/workers")
	if err != nil {
		return f, err
	}
	if got.status != http.StatusOK {
		return f, errStatus(got)
	}
	return f, json.Unmarshal(got.body, &f)
}

// exact waits until predictions for n workers are exact.
func exact(t *testing.T, c *caller, n int) {
	t.Helper()
	eventually(t, 20*time.Second, func() error {
		f, err := fleetOf(t.Context(), c)
		if err != nil {
			return err
		}
		ready := 0
		for _, w := range f.Workers {
			if w.Card.State == "WORKER_STATE_READY" && w.Certainty == "CERTAINTY_EXACT" {
				ready++
			}
		}
		if ready != n {
			return errCount("exact workers", ready, n)
		}
		return nil
	})
}

// idle waits until no request is in flight. What a killed gateway had booked ends when its worker has been idle for some
// seconds.
func idle(t *testing.T, c *caller) {
	t.Helper()
	eventually(t, 20*time.Second, func() error {
		f, err := fleetOf(t.Context(), c)
		if err != nil {
			return err
		}
		for _, w := range f.Workers {
			if w.Inflight != 0 {
				return errCount("requests in flight at "+w.Card.ID, w.Inflight, 0)
			}
		}
		return nil
	})
}

// eventually polls a condition that other processes bring about; the last reason is the failure's text.
func eventually(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			require.NoError(t, err, "still so after %s", limit)
		case <-tick.C:
		}
	}
}
