package mirror_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
)

// cpuNanos is the processor time of this process.
func cpuNanos() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// churn makes steps of a full cache: each removes the blocks of an old prompt and stores as many of a new one. Half of
// all blocks are there at any time.
func churn(perStep, steps int) []kvevents.Batch {
	out := make([]kvevents.Batch, steps)
	hashes := func(step int) []uint64 {
		list := make([]uint64, perStep)
		for j := range list {
			list[j] = uint64(step*perStep+j+1) * 0x9e3779b97f4a7c15
			list[j] ^= list[j] >> 29
			list[j] *= 0xbf58476d1ce4e5b9
		}
		return list
	}
	for i := range out {
		out[i].Events = []kvevents.Event{
			removed(hashes((i + steps/2) % steps)...), stored(16, 0, hashes(i)...),
		}
	}
	return out
}

// BenchmarkApply is a full cache under pressure: short prompts in a small cache, and prompts of 32 KB of text in one of
// 300,000 blocks, most of which no processor cache holds.
func BenchmarkApply(b *testing.B) {
	for _, shape := range []struct{ perStep, steps int }{{32, 1024}, {600, 1000}} {
		b.Run(fmt.Sprintf("blocks %d of %d", shape.perStep, shape.perStep*shape.steps/2), func(b *testing.B) {
			batches := churn(shape.perStep, shape.steps)
			m := mirror.New(mirror.Config{Model: model})
			for i := range batches {
				m.Apply(&batches[i])
			}
			b.ReportAllocs()
			n := 0
			before := cpuNanos()
			for b.Loop() {
				m.Apply(&batches[n%len(batches)])
				n++
			}
			b.ReportMetric(float64(cpuNanos()-before)/float64(n), "cpu-ns/step")
		})
	}
}
