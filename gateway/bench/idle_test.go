package bench

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// idle is the resident KB that an open stream without traffic takes.
func idle(tb testing.TB, a *arm) float64 {
	tb.Helper()
	const streams = 1000
	p := a.procs[0]
	require.NoError(tb, p.ask(askCollect))
	before, err := residentKB(p.cmd.Process.Pid)
	require.NoError(tb, err)
	l := load{shape: shape{bytes: 1024, stream: true}, plan: &plan{events: 2, gap: time.Hour, bytes: 180}}
	made := newLanes(tb)
	bodies := made.newBodies(l.shape, 0)
	conns := make([]net.Conn, 0, streams)
	for range streams {
		c, err := net.Dial("tcp", a.addr)
		require.NoError(tb, err)
		require.NoError(tb, c.SetDeadline(time.Now().Add(time.Minute)))
		conns = append(conns, c)
		_, err = c.Write(l.appendRequest(nil, bodies.next()))
		require.NoError(tb, err)
	}
	for _, c := range conns {
		_, err := c.Read(make([]byte, 4096))
		require.NoError(tb, err)
	}
	require.NoError(tb, p.ask(askCollect))
	after, err := residentKB(p.cmd.Process.Pid)
	require.NoError(tb, err)
	for _, c := range conns {
		_ = c.Close()
	}
	return float64(after-before) / streams
}

func newLanes(tb testing.TB) *lanes {
	tb.Helper()
	p, err := newProse(filepath.Join("..", "..", "deploy", "demo-model", "train", "words.txt"))
	require.NoError(tb, err)
	return &lanes{prose: p}
}

// TestBodies checks what the comparison rests on: bodies are requests of the asked length, no two are equal, and known
// ones share all but the last question.
func TestBodies(t *testing.T) {
	t.Parallel()
	for _, s := range []shape{{bytes: 1024}, {bytes: 1024, stream: true}, {bytes: 32 << 10}, {bytes: 32 << 10, known: true}} {
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
			t.Parallel()
			made := newLanes(t)
			a, b, other := made.newBodies(s, 0), made.newBodies(s, 0), made.newBodies(s, 1)
			seen := map[string]bool{}
			for range 20 {
				for _, from := range []*bodies{a, b, other} {
					body := string(from.next())
					require.InDelta(t, s.bytes, len(body), float64(s.bytes)/8)
					require.False(t, seen[body])
					seen[body] = true
				}
			}
			same := commonPrefix(string(a.next()), string(b.next()))
			if s.known {
				require.Greater(t, same, s.bytes*3/4)
				require.Less(t, commonPrefix(string(a.next()), string(other.next())), 512)
				return
			}
			require.Less(t, same, 256)
		})
	}
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// TestBodiesAreJSON reads them.
func TestBodiesAreJSON(t *testing.T) {
	t.Parallel()
	made := newLanes(t)
	for _, s := range []shape{{bytes: 1024, stream: true}, {bytes: 32 << 10, known: true}} {
		var q struct {
			Model    string
			Stream   bool
			Messages []struct{ Role, Content string }
		}
		require.NoError(t, json.Unmarshal(made.newBodies(s, 0).next(), &q))
		require.Equal(t, s.stream, q.Stream)
		require.Equal(t, "user", q.Messages[len(q.Messages)-1].Role)
	}
}

// TestCPUClock reads this process's clock while it works.
func TestCPUClock(t *testing.T) {
	t.Parallel()
	before, err := cpuTime(os.Getpid())
	require.NoError(t, err)
	var after time.Duration
	for after <= before {
		after, err = cpuTime(os.Getpid())
		require.NoError(t, err)
	}
	_, err = cpuTime(1 << 22) // one above the highest number that Linux gives
	require.Error(t, err)
}
