package feed

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/services/kit/rpc"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
)

// BenchmarkVisible publishes 200,000 units per second for five seconds and reports, by the wall clock, how long after its
// publication a delta can be found by a walk.
func BenchmarkVisible(b *testing.B) {
	const workers, perSecond, seconds = 8, 400, 5 // messages of 512 units
	conn := kittest.Bus(b, kittest.NATS(b))
	src, k := newSource(workers), newSink(workers)
	for i := range workers * cacheSteps { // caches are full
		k.machine.Delta(time.Now(), src.next(i%workers))
	}
	var mu sync.Mutex
	var took []time.Duration
	sub, err := bus.Subscribe(conn, bus.KVAll(), bus.Handler[*eventv1.KvDelta]{
		OnMessage: func(_ bus.Subject, d *eventv1.KvDelta) {
			k.machine.Delta(time.Now(), d)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Duration(time.Now().UnixNano()-int64(d.GetUnitCount())))
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		pace := time.NewTicker(time.Second / perSecond)
		for i := range perSecond * seconds {
			d := src.next(i % workers)
			<-pace.C
			d.UnitCount = uint64(time.Now().UnixNano()) // unused in a delta: the benchmark's stamp
			if err := conn.Publish(b.Context(), bus.KV("m", d.GetWorkerId(), 0), d); err != nil {
				b.Fatal(err)
			}
		}
		pace.Stop()
	}
	k.drained(b, uint64(workers*cacheSteps+b.N*perSecond*seconds))
	src.verify(b, k)
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
	if err := sub.Close(); err != nil {
		b.Fatal(err)
	}
}

// bigWorker answers snapshots of many units, in parts as adapters do.
type bigWorker struct {
	workerv1.UnimplementedWorkerServiceServer
	units []uint64
}

const partUnits = 32_768

func (w *bigWorker) Snapshot(
	_ *workerv1.SnapshotRequest, stream grpc.ServerStreamingServer[workerv1.SnapshotResponse],
) error {
	digest := kvblock.DigestOf(w.units)
	for from := 0; from < len(w.units); from += partUnits {
		end := min(from+partUnits, len(w.units))
		part := &workerv1.SnapshotResponse{
			Epoch: 1, Tier: workerv1.Tier_TIER_GPU, Units: w.units[from:end], Last: end == len(w.units), Digest: digest,
		}
		if err := stream.Send(part); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkResync is a stream of 400,000 units from the ask to the live stream, over a TCP connection of its own.
func BenchmarkResync(b *testing.B) {
	network := rpc.NewNetwork()
	w := &bigWorker{units: newSource(1).random(400_000)}
	srv := kittest.Serve(b, rpc.ServerConfig{Address: "tcp://127.0.0.1:0"},
		rpc.ServerDeps{Log: kittest.Logger(b), Network: network},
		func(r grpc.ServiceRegistrar) { workerv1.RegisterWorkerServiceServer(r, w) })
	var machine *Machine
	fetcher := NewFetcher(FetchConfig{
		Dial: func(address string) (Conn, error) {
			return rpc.Dial(address, rpc.ClientConfig{}, rpc.ClientDeps{Network: network})
		},
		Log: kittest.Logger(b), Now: time.Now, Timeout: time.Minute, Parallel: 1,
	})
	best := time.Hour
	for b.Loop() {
		x := index.New(index.Config{})
		machine = New(x, DefaultLimits(), Hooks{
			Ask: func(a Ask) { fetcher.Fetch(context.Background(), a, machine) }, Counts: &Counts{},
		})
		start := time.Now()
		s := machine.Open(start, Key{Worker: "w"}, srv.Addr())
		fetcher.Wait()
		best = min(best, time.Since(start))
		if s.State() != Live || s.Units() != len(w.units) {
			b.Fatal(fmt.Errorf("state %d, %d units", s.State(), s.Units()))
		}
	}
	b.ReportMetric(float64(best.Microseconds())/1e3, "best-ms")
}
