package route

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
)

// BenchmarkDecision is Route, Progress and Settle of a prompt of 8,192 tokens over 16 workers that hold parts of it, with
// a few requests in flight on each. It reports the least CPU time of one thread, over batches of 20, for a whole life and
// for the choice alone.
func BenchmarkDecision(b *testing.B) {
	for _, workers := range []int{4, 16, 96} {
		b.Run("workers="+strconv.Itoa(workers), func(b *testing.B) {
			r := newRig(b, setup{maxInflight: 1 << 20})
			units := prompt("p", 512)
			for i := range workers {
				r.worker(fmt.Sprint("w", i), nil)
				r.store(fmt.Sprint("w", i), units[:(i*37)%512])
			}
			for i := range 4 * workers {
				r.settled(b, ask(prompt(fmt.Sprint("load", i), 30)), false)
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			req := ask(units)
			req.PromptTokens = 8192
			b.ReportAllocs()
			choice, life := time.Hour, time.Hour
			const batch = 20
			for b.Loop() {
				var choices, lives time.Duration
				for range batch {
					c, l := r.settled(b, req, true)
					choices, lives = choices+c, lives+l
				}
				choice, life = min(choice, choices), min(life, lives)
			}
			b.ReportMetric(float64(choice.Nanoseconds())/batch/1e3, "choice-cpu-us")
			b.ReportMetric(float64(life.Nanoseconds())/batch/1e3, "life-cpu-us")
		})
	}
}

// settled routes a request and ends it if asked to; it returns the CPU time of the choice and of the whole.
func (r *rig) settled(b *testing.B, req *schedulerv1.RouteRequest, end bool) (choice, life time.Duration) {
	start := threadCPU(b)
	resp, err := r.engine.Route(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	choice = threadCPU(b) - start
	if end {
		r.engine.Progress(&schedulerv1.ProgressRequest{Reservation: resp.GetReservation()})
		r.engine.Settle(&schedulerv1.SettleRequest{Reservation: resp.GetReservation(), Outcome: ok, OutputTokens: 10})
	}
	return choice, threadCPU(b) - start
}

func threadCPU(b *testing.B) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		b.Fatal(err)
	}
	return time.Duration(now.Nano())
}
