package cases

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

// holder is a worker that never ends an answer. It tells when a call has come as far as its prompt says, and when the
// caller of an unfinished one is gone.
type holder struct {
	arrived, gone chan time.Time
	calls         atomic.Int64 // chat calls
	conns         sync.Map     // net.Conn -> http.ConnState
}

// Prompts that say how far a call comes.
const (
	sayNothing = "nothing"
	sayHalf    = "half"
	sayAll     = "everything"
)

func startHolder(t *testing.T) (*holder, string) {
	t.Helper()
	h := &holder{arrived: make(chan time.Time, 16), gone: make(chan time.Time, 16)}
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(c net.Conn, s http.ConnState) { h.conns.Store(c, s) }
	server.Start()
	t.Cleanup(server.Close)
	return h, server.URL
}

// busy is how many connections have a call on them.
func (h *holder) busy() (n int) {
	h.conns.Range(func(_, state any) bool {
		if state == http.StateActive {
			n++
		}
		return true
	})
	return n
}

// ServeHTTP is the worker's routes.
func (h *holder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/chat/completions" {
		(&gated{}).ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h.calls.Add(1)
	plain := `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"content":"one"},"finish_reason":"stop"}]}`
	switch {
	case strings.Contains(string(body), sayAll):
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, plain)
		return
	case strings.Contains(string(body), sayHalf) && strings.Contains(string(body), `"stream":true`):
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, `data: {"id":"x","choices":[{"index":0,"delta":{"content":"one"},"finish_reason":null}]}`+"\n\n")
	case strings.Contains(string(body), sayHalf):
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(plain)))
		_, _ = io.WriteString(w, plain[:len(plain)/2])
	}
	_ = http.NewResponseController(w).Flush()
	h.arrived <- time.Now()
	<-r.Context().Done()
	h.gone <- time.Now()
}

// leaving is a mesh whose every stage can hold a request: two of them fit at the worker, a third waits at the scheduler,
// a fourth at the gateway, and the tokenizer stands still while it is told to.
type leaving struct {
	*meshed
	worker        *holder
	standstill    atomic.Bool
	arrived, gone chan time.Time // at the tokenizer
}

func startLeaving(t *testing.T) *leaving {
	t.Helper()
	l := &leaving{arrived: make(chan time.Time, 16), gone: make(chan time.Time, 16)}
	var url string
	l.worker, url = startHolder(t)
	var ends ends
	t.Cleanup(ends.run)
	port, err := (&ports{}).take()
	require.NoError(t, err)
	tune := func(cfg *mesh.Config) {
		cfg.Gateway.Own.PromptBudget, cfg.Gateway.Own.MaxInflight = stepLimit, 3
		cfg.Scheduler.Own.Worker.MaxInflight = 2
		cfg.Tokenizer.Server.Address = tcp(port)
	}
	cfg := doorsConfig(t, url)
	tune(&cfg)
	tokenizer, err := mesh.New(cfg, mesh.Deps{Log: slog.New(slog.DiscardHandler), Only: []string{mesh.Tokenizer}})
	require.NoError(t, err)
	require.NoError(t, startMesh(t.Context(), tokenizer, true, &ends))
	front, err := startSlow(local(port), l.hold)
	require.NoError(t, err)
	ends.add(front.stop)
	l.meshed = startDoors(t, []string{url}, func(cfg *mesh.Config) {
		tune(cfg)
		cfg.Tokenizer.Server.Address = "tcp://" + front.addr
	}, mesh.Tokenizer)
	return l
}

// hold is the tokenizer's gate. Others ask there too, for its health.
func (l *leaving) hold(ctx context.Context, method string) error {
	if !l.standstill.Load() || !strings.HasSuffix(method, "/Encode") {
		return nil
	}
	l.arrived <- time.Now()
	<-ctx.Done()
	l.gone <- time.Now()
	return ctx.Err()
}

// send begins a chat; closing what it returns is the client's leaving.
func send(t *testing.T, url, prompt string, stream bool) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	body := fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":%q}]}`, base, stream, prompt)
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	return conn
}

// counted waits until a gauge of the mesh has a value, and tells when it was first seen.
func (l *leaving) counted(t *testing.T, name string, want int) time.Time {
	t.Helper()
	kittest.Eventually(t, func() error {
		if got := gauge(l.mesh, name); got != want {
			return fmt.Errorf("%s is %d, not %d", name, got, want)
		}
		return nil
	})
	return time.Now()
}

// window is a stage of a request's life in which its client leaves.
type window struct {
	name string
	// ahead is how many requests fill the places before it.
	ahead int
	// prompt says what the worker does.
	prompt string
	// reached waits until the request is there; ended until that stage knows that its client is gone, and says when.
	reached func(t *testing.T, l *leaving, conn net.Conn, stream bool)
	ended   func(t *testing.T, l *leaving) time.Time
	// calls is how many calls the worker gets.
	calls int64
}

func windows() []window {
	atWorker := func(t *testing.T, l *leaving, _ net.Conn, _ bool) { kittest.Recv(t, l.worker.arrived) }
	workerKnows := func(t *testing.T, l *leaving) time.Time { return kittest.Recv(t, l.worker.gone) }
	waits := func(name string) func(*testing.T, *leaving, net.Conn, bool) {
		return func(t *testing.T, l *leaving, _ net.Conn, _ bool) { l.counted(t, name, 1) }
	}
	const atGateway, atScheduler = "kvmesh_gateway_queued_requests", "kvmesh_scheduler_queue_waiting"
	return []window{
		{
			name: "queued at the gateway", ahead: 3, prompt: sayNothing, reached: waits(atGateway),
			ended: func(t *testing.T, l *leaving) time.Time { return l.counted(t, atGateway, 0) },
		},
		{
			name: "queued at the scheduler", ahead: 2, prompt: sayNothing, reached: waits(atScheduler),
			ended: func(t *testing.T, l *leaving) time.Time { return l.counted(t, atScheduler, 0) },
		},
		{
			name: "tokenising", prompt: sayNothing,
			reached: func(t *testing.T, l *leaving, _ net.Conn, _ bool) { kittest.Recv(t, l.arrived) },
			ended:   func(t *testing.T, l *leaving) time.Time { return kittest.Recv(t, l.gone) },
		},
		{name: "before the first byte", prompt: sayNothing, reached: atWorker, ended: workerKnows, calls: 1},
		{
			name: "mid-answer", prompt: sayHalf, ended: workerKnows, calls: 1,
			reached: func(t *testing.T, l *leaving, conn net.Conn, stream bool) {
				kittest.Recv(t, l.worker.arrived)
				for lines := bufio.NewReader(conn); stream; {
					line, err := lines.ReadString('\n')
					require.NoError(t, err)
					stream = !strings.HasPrefix(line, "data: ")
				}
			},
		},
	}
}

// leave has one client leave in the window and says how long it took until that was known there.
func (w *window) leave(t *testing.T, l *leaving, url string, stream bool) time.Duration {
	t.Helper()
	var ahead []net.Conn
	for i := range w.ahead {
		ahead = append(ahead, send(t, url, sayNothing, stream))
		if i < 2 {
			kittest.Recv(t, l.worker.arrived)
			continue
		}
		l.counted(t, "kvmesh_scheduler_queue_waiting", 1)
	}
	before := l.worker.calls.Load()
	l.standstill.Store(w.name == "tokenising")
	conn := send(t, url, w.prompt, stream)
	w.reached(t, l, conn, stream)
	left := time.Now()
	require.NoError(t, conn.Close())
	took := w.ended(t, l).Sub(left)
	require.Equal(t, w.calls, l.worker.calls.Load()-before, "calls at the worker")
	l.standstill.Store(false)
	for i := len(ahead) - 1; i >= 0; i-- { // the last one first: nobody moves up
		require.NoError(t, ahead[i].Close())
		if i < 2 {
			kittest.Recv(t, l.worker.gone)
			continue
		}
		l.counted(t, "kvmesh_scheduler_queue_waiting", 0)
	}
	l.idle(t)
	return took
}

// idle waits until nothing is counted anywhere and no connection to the worker is in use.
func (l *leaving) idle(t *testing.T) {
	t.Helper()
	l.counted(t, "kvmesh_gateway_inflight_requests", 0)
	l.counted(t, "kvmesh_gateway_queued_requests", 0)
	l.counted(t, "kvmesh_scheduler_reservations", 0)
	l.counted(t, "kvmesh_scheduler_queue_waiting", 0)
}

// held is what the process holds at rest.
func held(t *testing.T) (goroutines, descriptors int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return runtime.NumGoroutine(), len(files)
}

// TestCancellation has clients leave in every window of a request's life, plain and streamed, over REST and over gRPC.
// It prints how long the news took to the worker, or to the place where the request waited, and requires that nothing is
// left: no reservation, no place in a queue, no goroutine, no connection.
func TestCancellation(t *testing.T) {
	l := startLeaving(t)
	for _, door := range l.doors { // connections and pools that stay
		conn := send(t, door.url, sayAll, false)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		resp.Body.Close()
		conn.Close()
	}
	l.idle(t)
	goroutines, descriptors := held(t)
	for _, door := range l.doors {
		for _, w := range windows() {
			for _, stream := range []bool{false, true} {
				kind := map[bool]string{false: "plain", true: "streamed"}[stream]
				t.Run(door.name+", "+w.name+", "+kind, func(t *testing.T) {
					took := make([]time.Duration, scale(20, 3))
					for i := range took {
						took[i] = w.leave(t, l, door.url, stream)
					}
					slices.Sort(took)
					t.Logf("%s, %s, %s: known after %v at the median, %v at most (aim 100 ms, %d times)", door.name, w.name, kind,
						took[len(took)/2].Round(10*time.Microsecond), took[len(took)-1].Round(10*time.Microsecond), len(took))
				})
			}
		}
	}
	kittest.Eventually(t, func() error {
		if n, files := held(t); n > goroutines+2 || files > descriptors+2 {
			return fmt.Errorf("%d goroutines and %d descriptors, at rest they were %d and %d", n, files, goroutines, descriptors)
		}
		if n := l.worker.busy(); n > 0 {
			return fmt.Errorf("%d connections to the worker are in use", n)
		}
		return nil
	})
}
