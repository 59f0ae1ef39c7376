package workeradapter_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"

	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// untilCard waits for a card that check accepts.
func untilCard(t *testing.T, m *mesh, check func(*workerv1.WorkerCard) error) *workerv1.WorkerCard {
	t.Helper()
	var card *workerv1.WorkerCard
	kittest.Eventually(t, func() error {
		c, err := m.current()
		if err != nil {
			return err
		}
		card = c
		return check(c)
	})
	return card
}

func inState(want workerv1.WorkerState) func(*workerv1.WorkerCard) error {
	return func(c *workerv1.WorkerCard) error {
		if c.State != want {
			return fmt.Errorf("state %s (%s), want %s", c.State, c.StateDetail, want)
		}
		return nil
	}
}

func eventsIn(want workerv1.EventState, detail string) func(*workerv1.WorkerCard) error {
	return func(c *workerv1.WorkerCard) error {
		if c.EventState != want || !strings.Contains(c.EventDetail, detail) {
			return fmt.Errorf("events %s (%s), want %s (%s)", c.EventState, c.EventDetail, want, detail)
		}
		return nil
	}
}

// post calls a control route of the worker.
func (w worker) post(t *testing.T, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, path)
}

// TestLife walks a worker through its states: a health check that says 200 is not enough to be ready.
func TestLife(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{BlockSize: 32, Faults: fakevllm.Faults{Refuse: true}})
	m := newMesh()
	startAdapter(t, fast(w.url), m)
	c := untilCard(t, m, inState(workerv1.WorkerState_WORKER_STATE_STARTING))
	require.Contains(t, c.StateDetail, "refuses connections")
	require.NoError(t, w.SetFaults(fakevllm.Faults{}))
	untilLive(t, m)
	ids := prompt(3, 100)
	w.complete(t, ids)
	untilHit(t, m, ids, 96)
	w.post(t, "/sleep?level=1", "")
	untilCard(t, m, inState(workerv1.WorkerState_WORKER_STATE_ASLEEP))
	untilHit(t, m, ids, 0)
	w.post(t, "/wake_up", "")
	untilCard(t, m, inState(workerv1.WorkerState_WORKER_STATE_READY))
	w.complete(t, ids)
	untilHit(t, m, ids, 96)
	for _, p := range []struct {
		path string
		hit  int
	}{{"/pause?clear_cache=false", 96}, {"/pause", 0}} {
		w.post(t, p.path, "")
		untilCard(t, m, inState(workerv1.WorkerState_WORKER_STATE_ASLEEP))
		untilHit(t, m, ids, 0) // which of both it was, nobody tells
		w.post(t, "/resume", "")
		untilCard(t, m, inState(workerv1.WorkerState_WORKER_STATE_READY))
		require.Zero(t, m.hit(0, ids, 32))
		untilSettled(t, m, w)
		require.Equal(t, p.hit, m.hit(0, ids, 32), "its next step has told, after %s", p.path)
	}
	w.complete(t, ids)
	untilHit(t, m, ids, 96)
	require.NoError(t, w.SetFaults(fakevllm.Faults{Refuse: true}))
	c = untilCard(t, m, inState(workerv1.WorkerState_WORKER_STATE_STARTING))
	require.NotContains(t, c.EventDetail, "prefix caching")
	untilHit(t, m, ids, 0)
	require.NoError(t, w.SetFaults(fakevllm.Faults{}))
	untilLive(t, m)
	untilHit(t, m, ids, 96)
}

// TestAPauseThatKeepsTheCache: steps that only hit say nothing, and give the blocks back all the same.
func TestAPauseThatKeepsTheCache(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{BlockSize: 32})
	m := newMesh()
	startAdapter(t, fast(w.url), m)
	untilLive(t, m)
	ids := prompt(3, 100)
	w.complete(t, ids)
	untilHit(t, m, ids, 96)
	w.post(t, "/pause?clear_cache=false", "")
	untilHit(t, m, ids, 0)
	w.post(t, "/resume", "")
	untilCard(t, m, inState(workerv1.WorkerState_WORKER_STATE_READY))
	require.Equal(t, 96, w.complete(t, ids))
	untilHit(t, m, ids, 96)
}

// TestAWorkerThatIsAwayNeedsNoAdvice: its publisher is away with it, which says nothing of how it was started.
func TestAWorkerThatIsAwayNeedsNoAdvice(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{})
	m := newMesh()
	startAdapter(t, fast(w.url), m)
	untilLive(t, m)
	w.stop()
	c := untilCard(t, m, func(c *workerv1.WorkerCard) error {
		if c.State != workerv1.WorkerState_WORKER_STATE_STARTING || c.EventState != workerv1.EventState_EVENT_STATE_OFF {
			return fmt.Errorf("state %s, events %s", c.State, c.EventState)
		}
		return nil
	})
	require.Contains(t, c.EventDetail, "tried again")
	require.NotContains(t, c.EventDetail, "start vLLM")
}

// deafPort is an address that takes connections for the length of the test and says nothing.
func deafPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l.Addr().String()
}

// freePort is an address that nobody listens at, between the ports of the packages that start whole meshes and those that
// the system gives to outgoing connections, which take a port that was just free within milliseconds.
func freePort(t *testing.T) string {
	t.Helper()
	const low, high = 31_000, 32_700
	for range high - low {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", low+rand.IntN(high-low))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	require.Fail(t, "no free port")
	return ""
}

// TestEventTroubles: each way in which events fail is told apart, with what to change.
func TestEventTroubles(t *testing.T) {
	t.Parallel()
	off, silent := workerv1.EventState_EVENT_STATE_OFF, workerv1.EventState_EVENT_STATE_SILENT
	live, late := workerv1.EventState_EVENT_STATE_LIVE, workerv1.EventState_EVENT_STATE_CATCHING_UP
	rows := []struct {
		name   string
		worker fakevllm.Config
		change func(*workeradapter.Config)
		state  workerv1.EventState
		detail string
	}{
		{
			name:   "off",
			worker: fakevllm.Config{KVEvents: fakevllm.KVEvents{Endpoint: "tcp://*:0", Enable: false}},
			state:  off, detail: "--kv-events-config",
		},
		{
			name:   "connects instead of binding",
			worker: fakevllm.Config{KVEvents: fakevllm.KVEvents{Enable: true, Endpoint: "tcp://" + deafPort(t)}},
			state:  off, detail: "tcp://*:5557",
		},
		{
			name: "refused by the adapter", change: func(c *workeradapter.Config) { c.Events.Mode = workeradapter.EventsOff },
			state: off, detail: "events.mode",
		},
		{
			name: "nothing listens", change: func(c *workeradapter.Config) {
				c.Events = workeradapter.Events{Mode: workeradapter.EventsConnect, Endpoint: "tcp://127.0.0.1:1"}
			}, state: off, detail: "nothing publishes",
		},
		{
			name: "wrong topic", worker: fakevllm.Config{KVEvents: fakevllm.KVEvents{
				Enable: true, Endpoint: "tcp://*:0", ReplayEndpoint: "tcp://*:0", Topic: "kv@a",
			}}, change: func(c *workeradapter.Config) {
				c.Events = workeradapter.Events{Mode: workeradapter.EventsConnect, Endpoint: "tcp://127.0.0.1:1", Topic: "kv@b"}
			}, state: off, detail: `"kv@a" does not begin with the adapter's events.topic "kv@b"`,
		},
		{
			name: "no replay", worker: fakevllm.Config{KVEvents: fakevllm.KVEvents{Enable: true, Endpoint: "tcp://*:0"}},
			state: live, detail: "replay_endpoint",
		},
		{
			name: "silent", worker: fakevllm.Config{Faults: fakevllm.Faults{StopEvents: true}}, state: silent,
			detail: "publishes nothing",
		},
		{
			name: "begun before the buffer",
			worker: fakevllm.Config{KVEvents: fakevllm.KVEvents{
				Enable: true, Endpoint: "tcp://*:0", ReplayEndpoint: "tcp://*:0", BufferSteps: 2,
			}}, state: late, detail: "buffer_steps",
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, row.worker)
			cfg := fast(w.url)
			if row.change != nil {
				row.change(&cfg)
			}
			for i := range 8 {
				w.complete(t, prompt(50+i, 400))
			}
			m := newMesh()
			startAdapter(t, cfg, m)
			untilCard(t, m, inState(workerv1.WorkerState_WORKER_STATE_READY))
			if row.state == silent {
				for i := range 8 {
					w.complete(t, prompt(80+i, 400))
				}
			}
			untilCard(t, m, eventsIn(row.state, row.detail))
		})
	}
}

// TestReplayAway: a replay socket that does not answer is named, also once the stream is complete without it. The
// endpoint is the worker's own text, with its wildcard.
func TestReplayAway(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{})
	cfg := fast(w.url)
	live, _ := w.EventEndpoints(0)
	cfg.Events = workeradapter.Events{
		Mode: workeradapter.EventsConnect, Endpoint: live, ReplayEndpoint: "tcp://127.0.0.1:1",
	}
	m := newMesh()
	startAdapter(t, cfg, m)
	untilCard(t, m, eventsIn(workerv1.EventState_EVENT_STATE_CATCHING_UP, "events.replay_endpoint"))
	w.complete(t, prompt(1, 400))
	untilCard(t, m, eventsIn(workerv1.EventState_EVENT_STATE_LIVE, "events.replay_endpoint"))
}

// TestBinds: a worker whose publisher connects is heard by an adapter that listens.
func TestBinds(t *testing.T) {
	t.Parallel()
	endpoint := "ipc://" + t.TempDir() + "/events"
	port := "tcp://" + freePort(t)
	w := startWorker(t, fakevllm.Config{BlockSize: 32, KVEvents: fakevllm.KVEvents{
		Enable: true, Endpoint: port, ReplayEndpoint: endpoint,
	}})
	cfg := fast(w.url)
	cfg.Events = workeradapter.Events{Mode: workeradapter.EventsBind, Endpoint: port, ReplayEndpoint: endpoint}
	m := newMesh()
	startAdapter(t, cfg, m)
	untilLive(t, m)
	ids := prompt(4, 100)
	w.complete(t, ids)
	untilHit(t, m, ids, 96)
}

// TestRanks: each data-parallel rank has a stream of its own.
func TestRanks(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{BlockSize: 32, DataParallelSize: 2})
	m := newMesh()
	startAdapter(t, fast(w.url), m)
	require.EqualValues(t, 2, untilLive(t, m).Ranks)
	ids := prompt(5, 100)
	w.complete(t, ids) // ranks take turns
	kittest.Eventually(t, func() error {
		if a, b := m.hit(0, ids, 32), m.hit(1, ids, 32); a+b != 96 {
			return fmt.Errorf("rank 0 holds %d, rank 1 holds %d, want 96 on one of them", a, b)
		}
		return nil
	})
}

// TestRepointedLoRA: a name that stands for another path loses its blocks.
func TestRepointedLoRA(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{BlockSize: 32, MaxLoRAs: 4, LoRAs: []fakevllm.LoRA{{Name: "ad", Path: "./a"}}})
	m := newMesh()
	startAdapter(t, fast(w.url), m)
	untilLive(t, m)
	held := func(want int) {
		kittest.Eventually(t, func() error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if n := m.rank(0).count(); n != want {
				return fmt.Errorf("%d units held, want %d", n, want)
			}
			return nil
		})
	}
	w.post(t, "/v1/completions", `{"model":"ad","max_tokens":1,"prompt":"`+strings.Repeat("word ", 40)+`"}`)
	held(12)
	w.post(t, "/v1/unload_lora_adapter", `{"lora_name":"ad"}`)
	w.post(t, "/v1/load_lora_adapter", `{"lora_name":"ad","lora_path":"./b"}`)
	held(0)
}

// TestResetByOthers: an idle worker says nothing of a reset, so the next decision counts on blocks that are gone; the step
// that answers it tells, and from then on predictions are what the worker serves.
func TestResetByOthers(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{BlockSize: 32})
	m := newMesh()
	startAdapter(t, fast(w.url), m)
	untilLive(t, m)
	ids, other := prompt(3, 100), prompt(4, 200)
	for range 3 {
		w.complete(t, ids)
		w.complete(t, other)
		untilHit(t, m, ids, 96)
		untilHit(t, m, other, 192)
		w.post(t, "/reset_prefix_cache", "")
		require.Zero(t, w.complete(t, ids))
		untilHit(t, m, other, 0)
		untilHit(t, m, ids, 96)
		require.Equal(t, 96, w.complete(t, ids))
	}
}

// TestEviction: under eviction pressure with shared prefixes every prediction equals what the worker served.
func TestEviction(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{BlockSize: 32, NumGPUBlocks: 60, MaxModelLen: 1024})
	m := newMesh()
	startAdapter(t, fast(w.url), m)
	untilLive(t, m)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 120 {
		family := rng.IntN(6)
		ids := append(prompt(family, 32*(1+family)), prompt(100+rng.IntN(4), 1+rng.IntN(300))...)
		predicted := m.hit(0, ids, 32)
		require.Equal(t, predicted, w.complete(t, ids), "request %d", i)
		untilSettled(t, m, w)
	}
}

// untilSettled waits until the mesh has heard what the worker did last: a prompt of one block that was never sent
// before is then held.
func untilSettled(t *testing.T, m *mesh, w worker) {
	t.Helper()
	m.mu.Lock()
	n := m.count
	m.mu.Unlock()
	probe := prompt(1000+n, 33)
	w.complete(t, probe)
	untilHit(t, m, probe, 32)
}

// TestSnapshot: the RPC gives the units at an epoch and seq, and refuses what it cannot know.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{BlockSize: 32})
	m := newMesh()
	svc, stop := startAdapter(t, fast(w.url), m)
	conn := kittest.MemServer(t, func(r grpc.ServiceRegistrar) { svc.Register(r) })
	client := workerv1.NewWorkerServiceClient(conn)
	untilLive(t, m)
	ids := prompt(6, 500)
	w.complete(t, ids)
	untilHit(t, m, ids, 480)

	got := &view{held: map[uint64]int{}}
	last := snapshot(t, client, &workerv1.SnapshotRequest{WorkerId: "w1"}, func(p *workerv1.SnapshotResponse) {
		got.epoch, got.seq = p.Epoch, p.Seq
		for _, u := range p.Units {
			got.held[u]++
		}
	})
	require.Equal(t, got.digest(), last.Digest)
	m.mu.Lock()
	require.Equal(t, m.rank(0).digest(), last.Digest)
	require.Equal(t, m.rank(0).epoch, got.epoch)
	m.mu.Unlock()

	for _, row := range []struct {
		req  *workerv1.SnapshotRequest
		want faultv1.Reason
	}{
		{&workerv1.SnapshotRequest{WorkerId: "other"}, faultv1.Reason_REASON_NOT_FOUND},
		{&workerv1.SnapshotRequest{WorkerId: "w1", Rank: 7}, faultv1.Reason_REASON_NOT_FOUND},
	} {
		s, err := client.Snapshot(t.Context(), row.req)
		if err == nil {
			_, err = s.Recv()
		}
		require.Equal(t, row.want, fault.ReasonOf(err))
	}
	card, err := client.GetCard(t.Context(), &workerv1.GetCardRequest{})
	require.NoError(t, err)
	require.Equal(t, "w1", card.Card.WorkerId)

	_, err = client.Drain(t.Context(), &workerv1.DrainRequest{})
	require.NoError(t, err)
	untilCard(t, m, inState(workerv1.WorkerState_WORKER_STATE_DRAINING))
	_, err = client.Drain(t.Context(), &workerv1.DrainRequest{Resume: true})
	require.NoError(t, err)
	untilCard(t, m, inState(workerv1.WorkerState_WORKER_STATE_READY))
	require.NoError(t, svc.Ready(t.Context()))
	stop()
	_, err = m.current()
	require.ErrorContains(t, err, "no card", "the lease is given back")
}

// snapshot reads all parts and returns the last.
func snapshot(
	t *testing.T, c workerv1.WorkerServiceClient, req *workerv1.SnapshotRequest, each func(*workerv1.SnapshotResponse),
) *workerv1.SnapshotResponse {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := c.Snapshot(ctx, req)
	require.NoError(t, err)
	for {
		p, err := s.Recv()
		require.NoError(t, err)
		each(p)
		if p.Last {
			_, err := s.Recv()
			require.ErrorIs(t, err, io.EOF)
			return p
		}
	}
}

// TestAdapterRestart: epochs grow over restarts of the adapter, and the new one knows what the worker holds.
func TestAdapterRestart(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{BlockSize: 32})
	m := newMesh()
	_, stop := startAdapter(t, fast(w.url), m)
	untilLive(t, m)
	ids := prompt(7, 100)
	w.complete(t, ids)
	untilHit(t, m, ids, 96)
	stop()
	m.mu.Lock()
	before := m.rank(0).epoch
	m.mu.Unlock()
	startAdapter(t, fast(w.url), m)
	kittest.Eventually(t, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.rank(0).epoch <= before {
			return fmt.Errorf("epoch %d, want more than %d", m.rank(0).epoch, before)
		}
		return nil
	})
	untilHit(t, m, ids, 96)
}

// TestBusLoss: a consumer that lost deltas sees it, takes a snapshot, and is exact again.
func TestBusLoss(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{BlockSize: 32, NumGPUBlocks: 200})
	m := newMesh()
	svc, _ := startAdapter(t, fast(w.url), m)
	client := workerv1.NewWorkerServiceClient(kittest.MemServer(t, func(r grpc.ServiceRegistrar) { svc.Register(r) }))
	untilLive(t, m)
	m.mu.Lock()
	m.drop = 3
	m.mu.Unlock()
	for i := range 30 {
		w.complete(t, prompt(200+i, 300))
	}
	kittest.Eventually(t, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.rank(0).stale {
			return fmt.Errorf("a loss was not seen")
		}
		m.drop = 0
		return nil
	})
	kittest.Eventually(t, func() error {
		fresh := &view{held: map[uint64]int{}}
		snapshot(t, client, &workerv1.SnapshotRequest{WorkerId: "w1"}, func(p *workerv1.SnapshotResponse) {
			fresh.epoch, fresh.seq = p.Epoch, p.Seq
			for _, u := range p.Units {
				fresh.held[u]++
			}
		})
		m.mu.Lock()
		defer m.mu.Unlock()
		if fresh.seq < m.rank(0).seq {
			return fmt.Errorf("deltas overtook the snapshot")
		}
		m.ranks[0] = fresh
		return nil
	})
	ids := prompt(900, 300)
	w.complete(t, ids)
	untilHit(t, m, ids, 288)
	kittest.Eventually(t, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if v := m.rank(0); v.beats == 0 || v.stale {
			return fmt.Errorf("%d heartbeats, stale %t", v.beats, v.stale)
		}
		return nil
	})
}

// TestHang: a worker that answers nothing keeps its lease, is told to be sick, and its numbers show their age.
func TestHang(t *testing.T) {
	t.Parallel()
	w := startWorker(t, fakevllm.Config{})
	m := newMesh()
	startAdapter(t, fast(w.url), m)
	untilLive(t, m)
	require.NoError(t, w.SetFaults(fakevllm.Faults{Freeze: true}))
	c := untilCard(t, m, inState(workerv1.WorkerState_WORKER_STATE_SICK))
	require.NotEmpty(t, c.StateDetail)
	require.Greater(t, c.Loads[0].AgeMs, uint32(1000))
	require.NoError(t, w.SetFaults(fakevllm.Faults{}))
	untilCard(t, m, inState(workerv1.WorkerState_WORKER_STATE_READY))
}

// TestSeveral: adapters of several workers fit in one process and one metrics registry.
func TestSeveral(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	for _, id := range []string{"a", "b"} {
		w := startWorker(t, fakevllm.Config{BlockSize: 32})
		m := newMesh()
		cfg := fast(w.url)
		cfg.ID = id
		svc, err := workeradapter.New(t.Context(), cfg, workeradapter.Deps{Log: kittest.Logger(t), Bus: m, Registerer: reg})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- svc.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			require.NoError(t, <-done)
		})
		require.Equal(t, id, untilLive(t, m).WorkerId)
		ids := prompt(9, 100)
		w.complete(t, ids)
		untilHit(t, m, ids, 96)
	}
	families, err := reg.Gather()
	require.NoError(t, err)
	seen := map[string]int{}
	for _, f := range families {
		require.True(t, strings.HasPrefix(f.GetName(), "kvmesh_worker_adapter_"), f.GetName())
		seen[f.GetName()] = len(f.Metric)
	}
	require.Equal(t, 2, seen["kvmesh_worker_adapter_deltas_total"])
	require.Equal(t, 2, seen["kvmesh_worker_adapter_units"])
}
