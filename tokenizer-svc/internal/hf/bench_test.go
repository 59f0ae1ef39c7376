//go:build cgo && !nohf

package hf_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/fixture"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hf"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/registry"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/segment"
)

// arm is one way of doing the same work. prepare runs before each timed call, outside the time.
type arm struct {
	name    string
	prepare func(round int)
	run     func(round int)
}

// interleave runs the arms in turn, b.N rounds of them, and reports each arm's least and median CPU time of the process,
// and its allocations. Arms share the machine's good and bad moments that way. The collector is off meanwhile.
func interleave(b *testing.B, arms []arm) {
	b.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// The goroutine keeps its thread, so that the fast engine's state of the thread is warm from the second round on.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	seed := rand.IntN(1 << 40)
	times := make([][]time.Duration, len(arms))
	allocs := make([]uint64, len(arms))
	// One round warms caches and the fast engine's state of this thread.
	for round := range b.N + 1 {
		for i, a := range arms {
			if a.prepare != nil {
				a.prepare(seed + round)
			}
			before, start := mallocs(), processTime(b)
			a.run(seed + round)
			took := processTime(b) - start
			if round > 0 {
				times[i] = append(times[i], took)
				allocs[i] += mallocs() - before
			}
		}
	}
	for i, a := range arms {
		slices.Sort(times[i])
		b.ReportMetric(float64(times[i][0].Nanoseconds())/1e3, a.name+"-min-µs")
		b.ReportMetric(float64(times[i][len(times[i])/2].Nanoseconds())/1e3, a.name+"-median-µs")
		b.ReportMetric(float64(allocs[i])/float64(b.N), a.name+"-allocs")
	}
	b.ReportMetric(0, "ns/op")
}

func mallocs() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}

func processTime(b *testing.B) time.Duration {
	b.Helper()
	var ts unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts))
	return time.Duration(ts.Nano())
}

// words is the project's own English and code, which the texts are mixed from.
func words(b *testing.B) []string {
	b.Helper()
	data, err := os.ReadFile("../probe/text/english-and-code.txt")
	require.NoError(b, err)
	return strings.SplitAfter(string(data), "\n")
}

// prose returns a text of n bytes that no other seed gives.
func prose(lines []string, n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	var out strings.Builder
	for out.Len() < n {
		out.WriteString(lines[rng.IntN(len(lines))])
	}
	return []byte(out.String()[:n])
}

func load(b *testing.B, kind hf.Kind, name string) *hf.Engine {
	b.Helper()
	threads := hf.NewThreads(16)
	b.Cleanup(threads.Close)
	def, err := definition.Read(fixture.Directory(b, name))
	require.NoError(b, err)
	engine, err := hf.Load(kind, def.JSON, threads)
	require.NoError(b, err)
	b.Cleanup(engine.Close)
	return engine
}

// BenchmarkEncode compares the engines on one text, fresh in every round, with the binding's own call beside them.
func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"qwen3", "gptoss", "deepseek_v3", "demo-model"} {
		reference, fast := load(b, hf.Reference, name), load(b, hf.Fast, name)
		lines := words(b)
		for _, size := range []int{100, 2 << 10, 32 << 10, 128 << 10} {
			b.Run(fmt.Sprintf("%s/%dB", name, size), func(b *testing.B) {
				ids := make([]uint32, 0, size)
				var text []byte
				prepare := func(round int) { text = prose(lines, size, uint64(round)) }
				appendIDs := func(e *hf.Engine) func(int) {
					return func(int) { ids, _ = e.AppendIDs(ids[:0], text, false) }
				}
				interleave(b, []arm{
					{"naive", prepare, func(int) { ids = reference.EncodeNaive(string(text)) }},
					{"reference", prepare, appendIDs(reference)},
					{"fast", prepare, appendIDs(fast)},
				})
				b.ReportMetric(float64(len(ids)), "ids")
			})
		}
	}
}

// conversation renders a chat of n messages of about 400 tokens each, as ChatML, after a system prompt of systemBytes.
func conversation(lines []string, systemBytes, n int, seed uint64) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "<|im_start|>system\n%s<|im_end|>\n", prose(lines, systemBytes, seed*1000+999))
	for i := range n {
		role := []string{"user", "assistant"}[i%2]
		fmt.Fprintf(&out, "<|im_start|>%s\n%s<|im_end|>\n", role, prose(lines, 1200, seed*1000+uint64(i)))
	}
	out.WriteString("<|im_start|>assistant\n")
	return []byte(out.String())
}

// BenchmarkTenthTurn encodes a conversation's tenth turn (19 messages) whose ninth (17) was encoded before: whole, and
// through the segment cache. The system prompt is one sentence, or 1,500 tokens as an agent's with its tools.
func BenchmarkTenthTurn(b *testing.B) {
	def, err := definition.Read(fixture.Directory(b, "qwen3"))
	require.NoError(b, err)
	for _, engine := range []string{"reference", "auto"} {
		threads := hf.NewThreads(16)
		b.Cleanup(threads.Close)
		open := func(cache *segment.Cache) *model.Model {
			native := &registry.Native{Threads: threads, Cache: cache, ReferenceOnly: engine == "reference"}
			m, err := native.Open(registry.Spec{Name: "qwen3"}, def)
			require.NoError(b, err)
			b.Cleanup(m.Release)
			return m
		}
		whole, cached := open(nil), open(segment.NewCache(64<<20))
		for name, systemBytes := range map[string]int{"short-system": 60, "agent-system": 4800} {
			b.Run(engine+"/"+name, func(b *testing.B) { tenthTurn(b, whole, cached, systemBytes) })
		}
	}
}

func tenthTurn(b *testing.B, whole, cached *model.Model, systemBytes int) {
	lines := words(b)
	ids := make([]uint32, 0, 1<<15)
	var text []byte
	prepare := func(round int) { text = conversation(lines, systemBytes, 19, uint64(round)+1) }
	encode := func(m *model.Model) func(int) {
		return func(int) {
			var err error
			if ids, err = m.Encode(ids[:0], text, false); err != nil {
				b.Error(err)
			}
		}
	}
	ninth := func(round int) {
		text = conversation(lines, systemBytes, 17, uint64(round)+1)
		encode(cached)(round)
		prepare(round)
	}
	interleave(b, []arm{{"whole", prepare, encode(whole)}, {"segments", ninth, encode(cached)}})
	b.ReportMetric(float64(len(ids)), "ids")
}
