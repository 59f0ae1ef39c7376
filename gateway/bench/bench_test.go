package bench

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	Serve()
	os.Exit(m.Run())
}

// row is one scenario's figures of one arm: the minimum over rounds.
type row struct {
	cpu  time.Duration // per unit of work
	rate float64
	p50  time.Duration
	gap  time.Duration
	lost int // over all rounds
}

// scenario is one load and what its work is counted in.
type scenario struct {
	name string
	unit string
	load load
	work int // units of one run
}

func scenarios() []scenario {
	paced := &plan{events: 200, gap: 12 * time.Millisecond, bytes: 180}
	burst := &plan{events: 2000, bytes: 180}
	return []scenario{
		{"1 KB chat, 16 clients", "request", load{lanes: 16, count: 16000, body: chatBody(1024, false)}, 16000},
		{"32 KB chat, 4 clients", "request", load{lanes: 4, count: 6000, body: chatBody(32<<10, false)}, 6000},
		{"1 KB chat, 1 client", "request", load{lanes: 1, count: 3000, body: chatBody(1024, false)}, 3000},
		{"paced, 100 streams", "token", load{lanes: 100, count: 100, body: chatBody(1024, true), plan: paced}, 100 * 200},
		{"burst, 16 streams", "token", load{lanes: 16, count: 64, body: chatBody(1024, true), plan: burst}, 64 * 2000},
	}
}

// BenchmarkGateway prints the table and writes it to bench/gateway.txt of the repository. One iteration is the whole
// comparison.
func BenchmarkGateway(b *testing.B) {
	rounds := 5
	if os.Getenv("KVMESH_BENCH_ROUNDS") != "" {
		_, err := fmt.Sscan(os.Getenv("KVMESH_BENCH_ROUNDS"), &rounds)
		require.NoError(b, err)
	}
	for b.Loop() {
		table := compare(b, rounds)
		b.Log("\n" + table)
		fmt.Print(table)
		require.NoError(b, os.WriteFile(filepath.Join("..", "..", "bench", "gateway.txt"), []byte(table), 0o644))
	}
}

// compare runs all scenarios for both arms, round by round.
func compare(tb testing.TB, rounds int) string {
	worker, err := start("worker", "")
	require.NoError(tb, err)
	defer worker.stop()
	arms := []string{"proxy", "gateway"}
	procs := map[string]*process{}
	for _, a := range arms {
		procs[a], err = start(a, worker.addr)
		require.NoError(tb, err)
		defer procs[a].stop()
	}
	if binary := os.Getenv(meshVariable); binary != "" {
		arms = append(arms, "mesh")
		procs["mesh"], err = startMesh(binary, worker.addr, tb.TempDir())
		require.NoError(tb, err)
		defer procs["mesh"].stop()
	}
	best := map[string]row{}
	only := os.Getenv("KVMESH_BENCH_ONLY")
	for round := range rounds {
		for _, s := range scenarios() {
			if only != "" && !strings.Contains(s.name, only) {
				continue
			}
			for i := range arms {
				arm := arms[(i+round)%len(arms)]
				measure(tb, procs[arm], s, arm, best)
			}
		}
	}
	memory := map[string]float64{}
	for _, a := range arms {
		if a != "mesh" { // its scheduler bounds what one worker gets at once
			memory[a] = idle(tb, procs[a])
		}
	}
	return render(best, memory, rounds, only)
}

// measure runs one scenario at one arm and keeps the best figures.
func measure(tb testing.TB, p *process, s scenario, arm string, best map[string]row) {
	tb.Helper()
	l := s.load
	l.addr = p.addr
	before, _, err := p.usage("cpu")
	require.NoError(tb, err)
	out, err := l.run()
	require.NoError(tb, err)
	after, _, err := p.usage("cpu")
	require.NoError(tb, err)
	r := row{
		cpu: (after - before) / time.Duration(s.work), rate: float64(out.requests) / out.wall.Seconds(),
		p50: out.percentile(out.latencies, 0.5), gap: out.percentile(out.gaps, 0.99), lost: out.lost,
	}
	key := arm + "|" + s.name
	have, ok := best[key]
	if !ok {
		best[key] = r
		return
	}
	have.cpu, have.rate = min(have.cpu, r.cpu), max(have.rate, r.rate)
	have.lost += r.lost
	have.p50, have.gap = min(have.p50, r.p50), min(have.gap, r.gap)
	best[key] = have
}

// idle is the resident KB that an open stream without traffic takes.
func idle(tb testing.TB, p *process) float64 {
	tb.Helper()
	const streams = 1000
	_, before, err := p.usage("gc")
	require.NoError(tb, err)
	quiet := plan{events: 2, gap: time.Hour, bytes: 180}
	body := chatBody(1024, true)
	conns := make([]net.Conn, 0, streams)
	for range streams {
		c, err := net.Dial("tcp", p.addr)
		require.NoError(tb, err)
		require.NoError(tb, c.SetDeadline(time.Now().Add(time.Minute)))
		conns = append(conns, c)
		_, err = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"+
			"%s: %s\r\nContent-Length: %d\r\n\r\n%s", planHeader, quiet, len(body), body)
		require.NoError(tb, err)
	}
	for _, c := range conns {
		_, err := c.Read(make([]byte, 4096))
		require.NoError(tb, err)
	}
	_, after, err := p.usage("gc")
	require.NoError(tb, err)
	for _, c := range conns {
		_ = c.Close()
	}
	return float64(after-before) / streams
}

// render prints the table: the yardstick, then each other arm with its ratio.
func render(best map[string]row, memory map[string]float64, rounds int, only string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CPU of the whole process, minimum of %d interleaved rounds; in brackets the ratio to httputil.ReverseProxy.\n"+
		"gateway: scheduler, template and tokenizer are stand-ins that answer at once. mesh: the all-in-one process, real\n"+
		"services, prompts rendered, tokenised and hashed. Worker and client are processes of their own on one machine.\n\n", rounds)
	others := []string{"gateway"}
	if os.Getenv(meshVariable) != "" {
		others = append(others, "mesh")
	}
	line := func(name, unit string, value func(arm string) float64) {
		p := value("proxy")
		fmt.Fprintf(&b, "%-24s ReverseProxy %8.1f", name, p)
		for _, arm := range others {
			fmt.Fprintf(&b, "   %s %8.1f (%.2f)", arm, value(arm), value(arm)/p)
		}
		fmt.Fprintf(&b, "   %s\n", unit)
	}
	for _, s := range scenarios() {
		if only != "" && !strings.Contains(s.name, only) {
			continue
		}
		of := func(arm string) row { return best[arm+"|"+s.name] }
		line(s.name, "us per "+s.unit, func(arm string) float64 { return us(of(arm).cpu) })
		if s.load.plan == nil {
			line("", "us latency, p50", func(arm string) float64 { return us(of(arm).p50) })
			line("", "requests/s", func(arm string) float64 { return of(arm).rate })
		} else if s.load.plan.gap > 0 {
			line("", "us gap beyond the worker's, p99", func(arm string) float64 { return us(of(arm).gap) })
		}
		for _, arm := range append([]string{"proxy"}, others...) {
			if n := of(arm).lost; n > 0 {
				fmt.Fprintf(&b, "%-24s %s lost %d streams\n", "", arm, n)
			}
		}
	}
	others = others[:1]
	line("open idle stream", "KB resident", func(arm string) float64 { return memory[arm] })
	return b.String()
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
