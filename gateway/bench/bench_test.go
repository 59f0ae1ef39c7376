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
		memory[a] = idle(tb, procs[a])
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

// render prints the table.
func render(best map[string]row, memory map[string]float64, rounds int, only string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CPU of the whole process, minimum of %d interleaved rounds. The gateway's scheduler, template and tokenizer are\n"+
		"stand-ins that answer at once; worker, proxy, gateway and client are processes of their own on one machine.\n\n", rounds)
	fmt.Fprintf(&b, "%-24s %14s %14s %7s\n", "CPU", "ReverseProxy", "gateway", "ratio")
	for _, s := range scenarios() {
		if only != "" && !strings.Contains(s.name, only) {
			continue
		}
		p, g := best["proxy|"+s.name], best["gateway|"+s.name]
		fmt.Fprintf(&b, "%-24s %11.1f us %11.1f us %7.2f   per %s\n", s.name, us(p.cpu), us(g.cpu), us(g.cpu)/us(p.cpu), s.unit)
	}
	fmt.Fprintf(&b, "%-24s %11.1f KB %11.1f KB %7.2f   resident\n\n", "open idle stream", memory["proxy"], memory["gateway"],
		memory["gateway"]/memory["proxy"])
	for _, s := range scenarios() {
		if only != "" && !strings.Contains(s.name, only) {
			continue
		}
		p, g := best["proxy|"+s.name], best["gateway|"+s.name]
		if s.load.plan == nil {
			fmt.Fprintf(&b, "%-24s p50 %.0f / %.0f us, %.0f / %.0f requests/s\n", s.name, us(p.p50), us(g.p50), p.rate, g.rate)
		} else if s.load.plan.gap > 0 {
			fmt.Fprintf(&b, "%-24s gap beyond the worker's, p99: %.2f / %.2f ms\n", s.name, us(p.gap)/1000, us(g.gap)/1000)
		}
		if p.lost+g.lost > 0 {
			fmt.Fprintf(&b, "%-24s streams lost: %d / %d\n", s.name, p.lost, g.lost)
		}
	}
	return b.String()
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
