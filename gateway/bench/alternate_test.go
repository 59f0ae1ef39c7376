package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkAlternate judges a change on a machine that does other things too. Single requests go to the arms by turns, so
// that each arm meets the same disturbances, and the 10th percentile leaves most of them out: of the latency, and of the
// CPU that the arm uses from the beginning of one request to that of the next, the work behind the answer included.
func BenchmarkAlternate(b *testing.B) {
	count := number(b, "KVMESH_BENCH_REQUESTS", 2000)
	for b.Loop() {
		p, worker := startWorker(b)
		all := chosen(arms(b, worker), "proxy mesh earlier")
		made := newLanes(b)
		stop := profileMesh(b, all)
		for _, s := range []shape{{bytes: 1024, known: true}, {bytes: 32 << 10}, {bytes: 32 << 10, known: true}} {
			name := fmt.Sprintf("%d KB, known %v", s.bytes>>10, s.known)
			if strings.Contains(name, os.Getenv("KVMESH_BENCH_ONLY")) {
				fmt.Println(name + ", us")
				alternate(b, run{p, made}, s, newTurns(b, all, count))
			}
		}
		stop()
	}
}

// tellEvery is after how many requests the worker publishes what they left in its cache.
const tellEvery = 100

// alternate sends the requests and prints a line per arm.
func alternate(tb testing.TB, r run, s shape, turns []*turn) {
	tb.Helper()
	bodies := r.made.newBodies(s, 0)
	var l load
	var request []byte
	for k := range cap(turns[0].latencies) {
		if k%tellEvery == 0 {
			require.NoError(tb, r.worker.ask(askTell))
			time.Sleep(digest)
			for _, t := range turns {
				t.used = 0
			}
		}
		request = l.appendRequest(request[:0], bodies.next())
		for i := range turns {
			turns[(i+k)%len(turns)].send(tb, request)
		}
	}
	for _, t := range turns {
		_ = t.conn.Close()
		fmt.Printf("  %-10s latency p10 %6.1f p50 %6.1f   CPU p10 %6.1f p50 %6.1f\n", t.arm.name,
			us(percentile(t.latencies, 0.1)), us(percentile(t.latencies, 0.5)),
			us(percentile(t.cpu, 0.1)), us(percentile(t.cpu, 0.5)))
	}
}

// turn is one arm's connection and what it showed.
type turn struct {
	arm            *arm
	conn           net.Conn
	in             *bufio.Reader
	used           time.Duration // the arm's CPU when its last request began; 0 after a rest
	latencies, cpu []time.Duration
}

func newTurns(tb testing.TB, all []*arm, count int) []*turn {
	tb.Helper()
	var out []*turn
	for _, a := range all {
		c, err := net.Dial("tcp", a.addr)
		require.NoError(tb, err)
		tb.Cleanup(func() { _ = c.Close() })
		out = append(out, &turn{arm: a, conn: c, in: bufio.NewReaderSize(c, 16<<10), latencies: make([]time.Duration, 0, count)})
	}
	return out
}

// send sends one request and reads its answer.
func (t *turn) send(tb testing.TB, request []byte) {
	tb.Helper()
	now, err := t.arm.cpu()
	require.NoError(tb, err)
	if t.used > 0 {
		t.cpu = append(t.cpu, now-t.used)
	}
	t.used = now
	begun := time.Now()
	_, err = t.conn.Write(request)
	require.NoError(tb, err)
	resp, err := http.ReadResponse(t.in, nil)
	require.NoError(tb, err)
	said, err := io.ReadAll(resp.Body)
	require.NoError(tb, err)
	t.latencies = append(t.latencies, time.Since(begun))
	require.Equal(tb, http.StatusOK, resp.StatusCode, "%s: %s", t.arm.name, said)
}
