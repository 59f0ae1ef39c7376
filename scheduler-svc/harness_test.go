package schedulersvc_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	schedulersvc "github.com/kvmesh/kvmesh/scheduler-svc"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/bus/embed"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

const model = "demo"

// mesh is a bus, a network and what lives on them.
type mesh struct {
	t       *testing.T
	nats    *embed.Server
	bus     *bus.Bus
	network *rpc.Network
}

func newMesh(t *testing.T) *mesh {
	srv := kittest.NATS(t)
	return &mesh{t: t, nats: srv, bus: kittest.Bus(t, srv), network: rpc.NewNetwork()}
}

// scheduler starts a scheduler and returns a client; stop ends it.
func (m *mesh) scheduler(name string, change func(*schedulersvc.Config)) (schedulerv1.SchedulerServiceClient, func()) {
	cfg := schedulersvc.Config{Name: name, Seed: 7}
	if change != nil {
		change(&cfg)
	}
	svc, err := schedulersvc.New(m.t.Context(), cfg, schedulersvc.Deps{
		Log: kittest.Logger(m.t), Registerer: prometheus.NewRegistry(), Bus: m.bus, Network: m.network,
	})
	require.NoError(m.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		require.NoError(m.t, kittest.Recv(m.t, done))
	})
	m.t.Cleanup(stop)
	kittest.Eventually(m.t, func() error { return svc.Ready(ctx) })
	kittest.Serve(m.t, rpc.ServerConfig{Address: "mem://" + name},
		rpc.ServerDeps{Log: kittest.Logger(m.t), Network: m.network}, svc.Register)
	return schedulerv1.NewSchedulerServiceClient(kittest.Dial(m.t, "mem://"+name, m.network)), stop
}

// adapter is a worker as the bus and the scheduler see it: a mirror with an epoch and a seq.
type adapter struct {
	workerv1.UnimplementedWorkerServiceServer
	mesh *mesh
	card *workerv1.WorkerCard

	mu    sync.Mutex
	epoch uint64
	seq   uint64
	units map[uint64]struct{}
}

func (m *mesh) adapter(id string, change func(*workerv1.WorkerCard)) *adapter {
	a := &adapter{mesh: m, epoch: 1, units: map[uint64]struct{}{}, card: &workerv1.WorkerCard{
		WorkerId: id, HttpUrl: "http://" + id, AdapterAddress: "mem://" + id, BlockTokens: 16, GpuBlocks: 4096,
		Ranks: 1, State: workerv1.WorkerState_WORKER_STATE_READY, EventState: workerv1.EventState_EVENT_STATE_LIVE,
		Models: []*workerv1.ServedModel{{Id: model, EntryJson: []byte(`{"id":"demo"}`)}}, MaxSequences: 64,
		Loads: []*workerv1.RankLoad{{}},
	}}
	if change != nil {
		change(a.card)
	}
	kittest.Serve(m.t, rpc.ServerConfig{Address: a.card.GetAdapterAddress()},
		rpc.ServerDeps{Log: kittest.Logger(m.t), Network: m.network},
		func(r grpc.ServiceRegistrar) { workerv1.RegisterWorkerServiceServer(r, a) })
	a.renew()
	return a
}

func (a *adapter) renew() { require.NoError(a.mesh.t, a.mesh.bus.PutCard(a.mesh.t.Context(), a.card)) }

// Snapshot implements WorkerService.
func (a *adapter) Snapshot(
	_ *workerv1.SnapshotRequest, stream grpc.ServerStreamingServer[workerv1.SnapshotResponse],
) error {
	a.mu.Lock()
	out := &workerv1.SnapshotResponse{Epoch: a.epoch, Seq: a.seq, Tier: workerv1.Tier_TIER_GPU, Last: true}
	for u := range a.units {
		out.Units = append(out.Units, u)
	}
	out.Digest = kvblock.DigestOf(out.GetUnits())
	a.mu.Unlock()
	return stream.Send(out)
}

// store makes the worker hold units; the delta is published unless it is to be lost.
func (a *adapter) store(lost bool, units ...uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seq++
	for _, u := range units {
		a.units[u] = struct{}{}
	}
	if lost {
		return
	}
	a.publish(&eventv1.KvDelta{Tiers: []*eventv1.TierDelta{{Tier: workerv1.Tier_TIER_GPU, Added: units}}})
}

func (a *adapter) remove(units ...uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seq++
	for _, u := range units {
		delete(a.units, u)
	}
	a.publish(&eventv1.KvDelta{Tiers: []*eventv1.TierDelta{{Tier: workerv1.Tier_TIER_GPU, Removed: units}}})
}

func (a *adapter) heartbeat() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var d kvblock.Digest
	for u := range a.units {
		d.Add(u)
	}
	a.publish(&eventv1.KvDelta{Heartbeat: true, UnitCount: uint64(len(a.units)), Digest: d.Value()})
}

// restart empties the worker under a new epoch.
func (a *adapter) restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epoch++
	a.seq = 0
	clear(a.units)
	a.publish(&eventv1.KvDelta{Heartbeat: true})
}

func (a *adapter) publish(d *eventv1.KvDelta) {
	d.WorkerId, d.Epoch, d.Seq = a.card.GetWorkerId(), a.epoch, a.seq
	require.NoError(a.mesh.t, a.mesh.bus.Publish(a.mesh.t.Context(), bus.KV(model, d.GetWorkerId(), 0), d))
}

// chain is a prompt of n units.
func chain(name string, n int) []uint64 {
	ids := make([]uint32, n*kvblock.UnitTokens)
	for i := range ids {
		ids[i] = uint32(i) + uint32(len(name))*1000 + uint32(name[0])
	}
	return kvblock.AppendUnits(nil, kvblock.Namespace{Model: model}.Root(), ids, "")
}

// request asks for a prompt of these units and a tail of five tokens.
func request(id string, units []uint64) *schedulerv1.RouteRequest {
	return &schedulerv1.RouteRequest{
		RequestId: id, Model: model, UnitHashes: units, PromptTokens: uint32(len(units)*kvblock.UnitTokens + 5),
		MaxOutputTokens: 64, Certainty: schedulerv1.Certainty_CERTAINTY_EXACT, Attempt: 1,
	}
}

// workers waits until the scheduler's view of the fleet passes.
func workers(
	t *testing.T, c schedulerv1.SchedulerServiceClient, check func(map[string]*schedulerv1.WorkerView) error,
) {
	t.Helper()
	kittest.Eventually(t, func() error {
		r, err := c.ListWorkers(t.Context(), &schedulerv1.ListWorkersRequest{})
		if err != nil {
			return err
		}
		views := map[string]*schedulerv1.WorkerView{}
		for _, w := range r.GetWorkers() {
			views[fmt.Sprintf("%s/%d", w.GetCard().GetWorkerId(), w.GetRank())] = w
		}
		return check(views)
	})
}

// holds waits until the index has exactly this many units for each worker, EXACT.
func holds(t *testing.T, c schedulerv1.SchedulerServiceClient, want map[string]uint64) {
	t.Helper()
	workers(t, c, func(views map[string]*schedulerv1.WorkerView) error {
		for name, units := range want {
			v := views[name]
			if v == nil {
				return fmt.Errorf("%s is not in the fleet", name)
			}
			if v.GetUnits() != units || v.GetCertainty() != schedulerv1.Certainty_CERTAINTY_EXACT {
				return fmt.Errorf("%s: %d units, %s; want %d, exact", name, v.GetUnits(), v.GetCertainty(), units)
			}
		}
		return nil
	})
}

func settle(t *testing.T, c schedulerv1.SchedulerServiceClient, r *schedulerv1.SettleRequest) {
	t.Helper()
	_, err := c.Settle(t.Context(), r)
	require.NoError(t, err)
}

func names(models []*schedulerv1.FleetModel) []string {
	var out []string
	for _, m := range models {
		out = append(out, m.GetId())
	}
	return slices.Clip(out)
}
