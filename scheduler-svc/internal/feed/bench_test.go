package feed

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
)

// stepUnits is what a message of the benchmarks adds, and removes once the cache is full: an engine step of 4,096 tokens.
const stepUnits = 256

// source makes the deltas of workers whose caches of cacheSteps steps are full: each adds new units and removes the
// oldest.
type source struct {
	r    *rand.Rand
	seqs []uint64
	held [][][]uint64
}

const cacheSteps = 400 // 102,400 units per worker

func newSource(workers int) *source {
	return &source{r: rand.New(rand.NewPCG(1, 1)), seqs: make([]uint64, workers), held: make([][][]uint64, workers)}
}

func (s *source) next(w int) *eventv1.KvDelta {
	units := s.random(stepUnits)
	s.seqs[w]++
	s.held[w] = append(s.held[w], units)
	d := &eventv1.TierDelta{Tier: workerv1.Tier_TIER_GPU, Added: units}
	if len(s.held[w]) > cacheSteps {
		d.Removed = s.held[w][0]
		s.held[w] = s.held[w][1:]
	}
	return &eventv1.KvDelta{
		WorkerId: fmt.Sprint("w", w), Epoch: 1, Seq: s.seqs[w], Tiers: []*eventv1.TierDelta{d},
	}
}

func (s *source) random(n int) []uint64 {
	units := make([]uint64, n)
	for i := range units {
		units[i] = s.r.Uint64()
	}
	return units
}

// sink is a machine with live streams.
type sink struct {
	machine *Machine
	counts  Counts
	index   *index.Index
}

func newSink(workers int) *sink {
	k := &sink{index: index.New(index.Config{})}
	var asks []Ask
	k.machine = New(k.index, DefaultLimits(), Hooks{Ask: func(a Ask) { asks = append(asks, a) }, Counts: &k.counts})
	for w := range workers {
		k.machine.Open(time.Now(), Key{Worker: fmt.Sprint("w", w)}, "")
	}
	for _, a := range asks {
		k.machine.Snapshot(time.Now(), a, Answer{Epoch: 1})
	}
	return k
}

// BenchmarkIngest is the way from a message on NATS to the index: 8 workers, 512 units per message, half of them added and
// half removed. It counts only what is in the index when all is drained and the digests are right. The bus arm is the CPU
// time of the whole process, publisher and embedded server included; the decode arm is what a consumer does with the bytes.
func BenchmarkIngest(b *testing.B) {
	b.Run("arm=decode", func(b *testing.B) {
		const workers = 8
		src, k := newSource(workers), newSink(workers)
		var raw [][]byte
		for i := range workers * cacheSteps * 2 {
			m, err := proto.Marshal(src.next(i % workers))
			if err != nil {
				b.Fatal(err)
			}
			raw = append(raw, m)
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		feed := func(msgs [][]byte) {
			for _, m := range msgs {
				d := new(eventv1.KvDelta)
				if err := proto.Unmarshal(m, d); err != nil {
					b.Fatal(err)
				}
				k.machine.Delta(time.Now(), d)
			}
		}
		feed(raw[:len(raw)/2]) // caches fill
		rest := raw[len(raw)/2:]
		best := time.Hour
		for b.Loop() { // the messages can be applied once: a second loop needs -benchtime 1x to be meaningful
			for len(rest) >= 64 {
				start := clock(b, unix.CLOCK_THREAD_CPUTIME_ID)
				feed(rest[:64])
				best = min(best, clock(b, unix.CLOCK_THREAD_CPUTIME_ID)-start)
				rest = rest[64:]
			}
		}
		src.verify(b, k)
		report(b, best, 64*2*stepUnits)
	})
	b.Run("arm=bus", func(b *testing.B) {
		const workers, messages = 8, 8 * cacheSteps * 2
		srv := kittest.NATS(b)
		conn := kittest.BusWith(b, srv, bus.Config{PendingBytes: 1 << 30, PendingMessages: 1 << 20})
		for b.Loop() {
			src, k := newSource(workers), newSink(workers)
			sub, err := bus.Subscribe(conn, bus.KVAll(), bus.Handler[*eventv1.KvDelta]{
				OnMessage: func(_ bus.Subject, d *eventv1.KvDelta) { k.machine.Delta(time.Now(), d) },
			})
			if err != nil {
				b.Fatal(err)
			}
			deltas := make([]*eventv1.KvDelta, messages)
			for i := range deltas {
				deltas[i] = src.next(i % workers)
			}
			start, units := clock(b, unix.CLOCK_PROCESS_CPUTIME_ID), 0
			for i, d := range deltas {
				units += len(d.GetTiers()[0].GetAdded()) + len(d.GetTiers()[0].GetRemoved())
				if err := conn.Publish(b.Context(), bus.KV("m", d.GetWorkerId(), 0), d); err != nil {
					b.Fatal(err)
				}
				if i%64 == 63 { // no faster than it drains
					k.drained(b, uint64(i+1))
				}
			}
			k.drained(b, messages)
			took := clock(b, unix.CLOCK_PROCESS_CPUTIME_ID) - start
			src.verify(b, k)
			report(b, took, units)
			if err := sub.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func (k *sink) drained(b *testing.B, deltas uint64) {
	kittest.Eventually(b, func() error {
		if n := k.counts.Deltas.Load(); n < deltas {
			return fmt.Errorf("%d of %d", n, deltas)
		}
		return nil
	})
}

// verify compares counts and digests of what should be held.
func (s *source) verify(b *testing.B, k *sink) {
	for w, steps := range s.held {
		var d kvblock.Digest
		n := 0
		for _, units := range steps {
			d.AddAll(units)
			n += len(units)
		}
		st := k.machine.streams[Key{Worker: fmt.Sprint("w", w)}]
		if st.Units() != n || st.holder.Digest() != d.Value() {
			b.Fatalf("worker %d: %d units, want %d", w, st.Units(), n)
		}
	}
}

func report(b *testing.B, took time.Duration, units int) {
	b.ReportMetric(float64(took.Nanoseconds())/float64(units), "cpu-ns/unit")
	b.ReportMetric(float64(units)/took.Seconds()/1e6, "Munits/cpu-s")
}

func clock(b *testing.B, id int32) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(id, &now); err != nil {
		b.Fatal(err)
	}
	return time.Duration(now.Nano())
}
