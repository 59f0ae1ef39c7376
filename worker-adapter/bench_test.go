package workeradapter_test

import (
	"context"
	"log/slog"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/protobuf/proto"

	eventv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/feed"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/stream"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq/zmqtest"
)

const (
	benchBlocks = 32      // stored and removed in each step
	benchSteps  = 1 << 10 // distinct steps, used in turn
)

// benchPayloads are steps of a full cache: a prompt of 32 blocks comes, 32 old blocks go.
func benchPayloads(b *testing.B) [][]byte {
	b.Helper()
	hash := func(step, i int) uint64 { return uint64(step*benchBlocks+i+1) * 0x9e3779b97f4a7c15 }
	out := make([][]byte, benchSteps)
	for s := range out {
		var stored, removed []any
		ids := make([]any, 0, benchBlocks*16)
		for i := range benchBlocks {
			stored = append(stored, hash(s, i))
			removed = append(removed, hash((s+benchSteps/2)%benchSteps, i))
			for j := range 16 {
				ids = append(ids, (s*7919+i*31+j*17)%150_000)
			}
		}
		p, err := msgpack.Marshal([]any{1.0, []any{
			map[string]any{"type": "BlockRemoved", "block_hashes": removed, "medium": "GPU", "group_idx": 0},
			map[string]any{
				"type": "BlockStored", "block_hashes": stored, "parent_block_hash": nil, "token_ids": ids,
				"block_size": 16, "lora_id": nil, "medium": "GPU", "lora_name": nil, "group_idx": 0,
			},
		}, 0})
		require.NoError(b, err)
		out[s] = p
	}
	return out
}

// cpu is the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report turns processor time into the share of a core that 20,000 stored (and as many removed) blocks a second take.
func report(b *testing.B, used time.Duration) {
	perBlock := float64(used.Nanoseconds()) / float64(b.N*benchBlocks)
	b.ReportMetric(perBlock, "cpu-ns/block")
	b.ReportMetric(perBlock*20_000/1e9*100, "%core@20k-blocks/s")
}

// counted makes a stream whose deltas are marshalled as the bus does and then counted.
func counted(units *int) *stream.Stream {
	return stream.New(stream.Config{WorkerID: "w", Mirror: mirror.Config{Model: "m"}}, stream.Deps{
		Log: slog.New(slog.DiscardHandler), Clock: time.Now, Publish: func(d *eventv1.KvDelta) error {
			_, err := proto.Marshal(d)
			for _, t := range d.Tiers {
				*units += len(t.Added)
			}
			return err
		},
	})
}

// BenchmarkStep is one step from msgpack to a marshalled delta.
func BenchmarkStep(b *testing.B) {
	payloads, units := benchPayloads(b), 0
	s := counted(&units)
	var batch kvevents.Batch
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	for i := range b.N {
		if err := kvevents.Decode(payloads[i%benchSteps], &batch); err != nil {
			b.Fatal(err)
		}
		s.Apply(&batch)
	}
	report(b, cpu()-before)
}

// done is a stream that tells when a number of steps was applied.
type done struct {
	*stream.Stream
	left  int
	ended chan struct{}
}

func (d *done) Apply(b *kvevents.Batch) {
	d.Stream.Apply(b)
	if d.left--; d.left == 0 {
		close(d.ended)
	}
}

// BenchmarkSocketToDelta is the whole way: ZMQ over loopback, feed, mirror, marshalled delta. The publisher's own time
// is in it.
func BenchmarkSocketToDelta(b *testing.B) {
	payloads, units := benchPayloads(b), 0
	p := zmqtest.Start(b)
	live, _ := p.Endpoints()
	d := &done{Stream: counted(&units), left: b.N, ended: make(chan struct{})}
	f := feed.New(feed.Config{Live: zmq.Subscription{Endpoint: live}}, d, slog.New(slog.DiscardHandler), feed.Metrics{})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	p.WaitSubscriber()
	b.ResetTimer()
	before := cpu()
	for i := range b.N {
		p.Publish(payloads[i%benchSteps])
		p.Forget(0)
	}
	<-d.ended
	report(b, cpu()-before)
	b.StopTimer()
	cancel()
	require.NoError(b, <-ended)
}

// heap is the memory in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkSnapshot copies a mirror of 400,000 units, and tells what one unit takes in memory.
func BenchmarkSnapshot(b *testing.B) {
	units := 0
	empty := heap()
	s := counted(&units)
	var ev kvevents.Event
	for i := range uint64(400_000) {
		ev = kvevents.Event{
			Kind: kvevents.Stored, Hashes: []uint64{i + 1}, BlockTokens: 16, TokenIDs: make([]uint32, 16), Medium: "GPU",
		}
		ev.TokenIDs[0] = uint32(i)
		s.Apply(&kvevents.Batch{Events: []kvevents.Event{ev}})
	}
	perUnit := float64(heap()-empty) / 400_000
	b.ResetTimer()
	for range b.N {
		if snap := s.Snapshot(); len(snap.Tiers[0]) != 400_000 {
			b.Fatal(len(snap.Tiers[0]))
		}
	}
	b.ReportMetric(perUnit, "heap-bytes/unit")
}
