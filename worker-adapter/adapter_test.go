package workeradapter_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"

	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// fast polls as fast as the configuration allows.
func fast(url string) workeradapter.Config {
	return workeradapter.Config{ID: "w1", URL: url, PollBusy: 10e6, PollIdle: 10e6, DrainTimeout: 2e9}
}

// untilLive waits for a ready worker with live events.
func untilLive(t *testing.T, m *mesh) *workerv1.WorkerCard {
	t.Helper()
	var card *workerv1.WorkerCard
	kittest.Eventually(t, func() error {
		c, err := m.current()
		if err != nil {
			return err
		}
		card = c
		if c.State != workerv1.WorkerState_WORKER_STATE_READY || c.EventState != workerv1.EventState_EVENT_STATE_LIVE {
			return fmt.Errorf("state %s (%s), events %s (%s)", c.State, c.StateDetail, c.EventState, c.EventDetail)
		}
		return nil
	})
	return card
}

// untilHit waits until the mesh says that a rank holds n tokens of a prompt.
func untilHit(t *testing.T, m *mesh, ids []uint32, n int) {
	t.Helper()
	kittest.Eventually(t, func() error {
		if got := m.hit(0, ids, 32); got != n {
			return fmt.Errorf("predicted hit %d, want %d", got, n)
		}
		return nil
	})
}

// TestFollows: what the mesh is told equals what the worker serves, through a restart of the worker.
func TestFollows(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{BlockSize: 32, NumGPUBlocks: 512, Aliases: []string{"second-name"}})
	m := newMesh()
	startAdapter(t, fast(w.url), m)
	card := untilLive(t, m)
	require.EqualValues(t, 32, card.BlockTokens)
	require.EqualValues(t, 511, card.GpuBlocks)
	require.True(t, card.Simulated)
	require.Equal(t, "simulated-model", card.Models[0].Id)
	require.Empty(t, card.Models[0].AliasOf)
	require.Equal(t, "second-name", card.Models[1].Id)
	require.Equal(t, "simulated-model", card.Models[1].AliasOf)
	ids := prompt(1, 200)
	require.Zero(t, w.complete(t, ids))
	untilHit(t, m, ids, 192)
	require.Equal(t, 192, w.complete(t, ids))
	require.NoError(t, w.Restart())
	untilHit(t, m, ids, 0)
	require.Zero(t, w.complete(t, ids))
	untilHit(t, m, ids, 192)
}

// TestLateAdapter: an adapter that starts after its worker replays what was published before.
func TestLateAdapter(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"0.32.0", "0.23.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, fakevllm.Config{BlockSize: 32, NumGPUBlocks: 512, Version: version})
			ids := prompt(2, 330)
			w.complete(t, ids)
			m := newMesh()
			cfg := fast(w.url)
			cfg.Events.Endpoint, cfg.Events.ReplayEndpoint = w.EventEndpoints(0)
			startAdapter(t, cfg, m)
			untilHit(t, m, ids, 320)
			untilLive(t, m)
		})
	}
}

// TestLostEvents: the publisher drops one batch in four; replay fills every gap.
func TestLostEvents(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{
		BlockSize: 32, NumGPUBlocks: 2048, Faults: fakevllm.Faults{DropEventOneIn: 4},
	})
	m := newMesh()
	startAdapter(t, fast(w.url), m)
	untilLive(t, m)
	for i := range 40 {
		w.complete(t, prompt(10+i, 100))
	}
	require.NoError(t, w.SetFaults(fakevllm.Faults{}))
	w.complete(t, prompt(99, 100))
	for i := range 40 {
		untilHit(t, m, prompt(10+i, 100), 96)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	require.False(t, m.rank(0).stale)
}
