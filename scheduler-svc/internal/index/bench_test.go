package index

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// benchBlocks is the length of a conversation in the benchmarks: 8,192 tokens.
const benchBlocks = 512

// fleet fills an index and its naive rival with chains of benchBlocks units, each held by two of the streams.
type fleet struct {
	chains  [][]uint64
	index   *Index
	streams []*Stream
	naive   map[uint64]map[uint16]struct{}
}

func newFleet(units, workers int, withNaive bool) *fleet {
	r := rand.New(rand.NewPCG(uint64(units), 1))
	f := &fleet{index: New(Config{MaxUnits: units * 2})}
	for range workers {
		f.streams = append(f.streams, f.index.Open())
	}
	if withNaive {
		f.naive = map[uint64]map[uint16]struct{}{}
	}
	for n := 0; n < units; n += benchBlocks {
		chain := randomUnits(r, benchBlocks)
		f.chains = append(f.chains, chain)
		for _, w := range []int{r.IntN(workers), r.IntN(workers)} {
			f.hold(w, chain)
		}
	}
	return f
}

func (f *fleet) hold(worker int, chain []uint64) {
	f.streams[worker].Add(Device, chain)
	if f.naive == nil {
		return
	}
	for _, u := range chain {
		if f.naive[u] == nil {
			f.naive[u] = map[uint16]struct{}{}
		}
		f.naive[u][uint16(worker)] = struct{}{}
	}
}

// naiveWalk is the rival's shape: one map of sets, the set of candidates narrowed unit by unit.
func (f *fleet) naiveWalk(chain []uint64) map[uint16]int {
	hits := map[uint16]int{}
	for i, u := range chain {
		found := false
		for w := range f.naive[u] {
			if hits[w] == i {
				hits[w]++
				found = true
			}
		}
		if !found {
			break
		}
	}
	return hits
}

func sizes() []int { return []int{100_000, 1_000_000, 8_000_000} }

// BenchmarkWalk walks chains of 512 units in an index of 0.1M, 1M and 8M, beside the same walk over a map of maps, and
// beside the floor: one load of each unit's first slot and nothing else. One round is 64 walks.
func BenchmarkWalk(b *testing.B) {
	for _, units := range sizes() {
		b.Run(fmt.Sprintf("units=%d", units), func(b *testing.B) {
			f := newFleet(units, 16, true)
			runtime.GC()
			var w Walk
			i := 0
			index := arm{name: "index", units: 64 * benchBlocks, run: func() {
				for range 64 {
					f.index.Walk(f.chains[i%len(f.chains)], &w)
					i += 7919
				}
			}}
			naive := arm{name: "naive", units: 64 * benchBlocks, run: func() {
				for range 64 {
					f.naiveWalk(f.chains[i%len(f.chains)])
					i += 7919
				}
			}}
			floor := arm{name: "floor", units: 64 * benchBlocks, run: func() {
				for range 64 {
					for _, u := range f.chains[i%len(f.chains)] {
						f.index.first(u)
					}
					i += 7919
				}
			}}
			compare(b, &index, &naive, &floor)
		})
	}
}

// BenchmarkWalkBesideWriter walks 8M units while one goroutine adds and removes chains without pause.
func BenchmarkWalkBesideWriter(b *testing.B) {
	f := newFleet(8_000_000, 16, false)
	extra := f.index.Open()
	chains := make([][]uint64, 256)
	r := rand.New(rand.NewPCG(3, 3))
	for i := range chains {
		chains[i] = randomUnits(r, benchBlocks)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				extra.Add(Device, chains[n%256])
				extra.Remove(Device, chains[(n+128)%256])
			}
		}
	}()
	var w Walk
	i := 0
	for b.Loop() {
		f.index.Walk(f.chains[i%len(f.chains)], &w)
		i += 7919
	}
	perUnit(b, benchBlocks)
	close(stop)
	<-stopped
}

// BenchmarkWideWalk is 3,750 units held by 96 workers each, 1,000 by 24 and 3,750 by 1,024: all share a prompt.
func BenchmarkWideWalk(b *testing.B) {
	for _, row := range []struct{ units, workers int }{{3750, 96}, {1000, 24}, {3750, 1024}} {
		b.Run(fmt.Sprintf("units=%d/workers=%d", row.units, row.workers), func(b *testing.B) {
			f := &fleet{index: New(Config{}), naive: map[uint64]map[uint16]struct{}{}}
			for range row.workers {
				f.streams = append(f.streams, f.index.Open())
			}
			chain := randomUnits(rand.New(rand.NewPCG(1, 1)), row.units)
			for w := range row.workers {
				f.hold(w, chain)
			}
			var w Walk
			index := arm{name: "index", units: row.units, run: func() { f.index.Walk(chain, &w) }}
			naive := arm{name: "naive", units: row.units, run: func() { f.naiveWalk(chain) }}
			compare(b, &index, &naive)
		})
	}
}

// BenchmarkAdd adds and removes chains in an index of 1M and 8M units: one operation is one unit stored and removed.
func BenchmarkAdd(b *testing.B) {
	for _, units := range sizes() {
		f := newFleet(units, 16, false)
		s := f.index.Open()
		r := rand.New(rand.NewPCG(3, 3))
		chains := make([][]uint64, 512)
		for i := range chains {
			chains[i] = randomUnits(r, benchBlocks)
		}
		b.Run(fmt.Sprintf("units=%d", units), func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				s.Add(Device, chains[n%512])
				s.Remove(Device, chains[(n+256)%512])
				n++
			}
			perUnit(b, 2*benchBlocks)
		})
	}
}

// BenchmarkDrop removes a worker of 400k units from an index of 8M. Leaving the walks is the drop alone; the sweep frees
// the memory behind it, and reload is the worker's snapshot taken in.
func BenchmarkDrop(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f := newFleet(8_000_000, 16, false)
	s := f.index.Open()
	units := randomUnits(rand.New(rand.NewPCG(9, 9)), 400_000)
	reload := arm{name: "reload", units: 1, run: func() {
		load := s.Replace()
		load.Add(Device, units)
		load.Commit()
	}}
	drop := arm{name: "drop", units: 1, run: s.Drop}
	sweep := arm{name: "sweep", units: 1, run: func() { f.index.Sweep() }}
	for b.Loop() {
		for range 5 {
			reload.measure(b)
			drop.measure(b)
			sweep.measure(b)
		}
	}
	for _, a := range []arm{reload, drop, sweep} {
		b.ReportMetric(float64(a.best.Nanoseconds())/1e6, a.name+"-cpu-ms")
	}
}

// BenchmarkMemory reports bytes per unit held by two workers, tables and sets, and by the heap.
func BenchmarkMemory(b *testing.B) {
	for _, units := range sizes() {
		b.Run(fmt.Sprintf("units=%d", units), func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			f := newFleet(units, 16, false)
			held := f.index.Stats()
			f.chains = nil
			runtime.GC()
			runtime.ReadMemStats(&after)
			for b.Loop() {
			}
			b.ReportMetric(float64(held.Bytes)/float64(held.Units), "table-B/unit")
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(held.Units), "heap-B/unit")
			runtime.KeepAlive(f)
		})
	}
}

// arm is one side of a comparison: a round and the thread's CPU time of its quickest one.
type arm struct {
	name  string
	units int
	run   func()
	// scaled is run where rounds differ in length: it returns the units of this one.
	scaled func() int
	best   time.Duration
	least  float64 // ns per unit
}

// compare runs the arms in ABBA order, at least five rounds each, and reports the least CPU time per unit of both. CPU
// time of one thread is what a busy machine distorts least.
func compare(b *testing.B, arms ...*arm) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ReportAllocs()
	for b.Loop() {
		for round := range 5 {
			for i := range arms {
				if round%2 == 1 {
					i = len(arms) - 1 - i
				}
				arms[i].measure(b)
			}
		}
	}
	for _, a := range arms {
		b.ReportMetric(a.least, a.name+"-cpu-ns/unit")
		b.ReportMetric(float64(a.best.Nanoseconds())/1e3, a.name+"-cpu-us/round")
	}
}

func (a *arm) measure(b *testing.B) {
	before, units := threadCPU(b), a.units
	if a.scaled != nil {
		units = a.scaled()
	} else {
		a.run()
	}
	took := threadCPU(b) - before
	if a.best == 0 || took < a.best {
		a.best = took
	}
	if per := float64(took.Nanoseconds()) / float64(units); a.least == 0 || per < a.least {
		a.least = per
	}
}

func threadCPU(b *testing.B) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		b.Fatal(err)
	}
	return time.Duration(now.Nano())
}

func perUnit(b *testing.B, units int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(units), "ns/unit")
}

// BenchmarkWalkOfLife walks conversations of an index that was filled as life does and turned over until it is as
// scattered as it will be, beside the floor: one load of each unit's entry and nothing else.
func BenchmarkWalkOfLife(b *testing.B) {
	for _, units := range sizes() {
		for _, row := range []struct {
			name string
			mix  talkMix
		}{{"trace", traceMix}, {"chat", chatMix}} {
			b.Run(fmt.Sprintf("mix=%s/units=%d", row.name, units), func(b *testing.B) {
				room := units / 11 // 16 caches hold about 11 times one cache in distinct units
				l := newLife(row.mix, 16, room)
				l.run(room * 3)
				chains := l.chains()
				runtime.GC()
				var w Walk
				at := 0
				round := func(f func(chain []uint64)) int {
					n := 0
					for n < 64*benchBlocks {
						chain := chains[at%len(chains)]
						f(chain)
						n += len(chain)
						at++
					}
					return n
				}
				index := arm{name: "index", scaled: func() int {
					return round(func(c []uint64) { l.index.Walk(c, &w) })
				}}
				floor := arm{name: "floor", scaled: func() int {
					return round(func(c []uint64) {
						for _, u := range c {
							l.index.first(u)
						}
					})
				}}
				compare(b, &index, &floor)
				s := l.index.Stats()
				b.ReportMetric(float64(s.Units), "units")
				b.ReportMetric(float64(s.Bytes)/float64(s.Units), "table-B/unit")
			})
		}
	}
}
