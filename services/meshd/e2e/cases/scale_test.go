package cases

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/gateway"
	"github.com/kvmesh/kvmesh/services/meshd/mesh"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// scale is full for CASES_ALL=1, and small beside other tests.
func scale(full, small int) int {
	if os.Getenv("CASES_ALL") != "" {
		return full
	}
	return small
}

// gatedVariable has this test binary run as a gated worker: client and gateway leave it no descriptors of their own.
const gatedVariable = "KVMESH_TEST_GATED_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(gatedVariable) == "" {
		os.Exit(m.Run())
	}
	g := &gated{open: make(chan struct{})}
	server := httptest.NewServer(g)
	fmt.Println(server.URL)
	_, _ = io.Copy(io.Discard, os.Stdin) // the parent's end ends it
}

// gated is a worker whose streams say one token and then wait until the gate opens.
type gated struct {
	open chan struct{}
	once sync.Once
}

// startGated starts one in a process of its own.
func startGated(t *testing.T) (url string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), gatedVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

// ServeHTTP is the worker's routes, and the one that opens the gate.
func (g *gated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health", "/metrics":
	case "/open":
		g.once.Do(func() { close(g.open) })
	case "/version":
		_, _ = io.WriteString(w, `{"version":"0.32.0"}`)
	case "/v1/models":
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"`+base+`","object":"model","created":1,"owned_by":"vllm","root":"`+
			base+`","parent":null,"max_model_len":8192,"permission":[]}]}`)
	case "/v1/chat/completions":
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		say := func(text, finish string) {
			_, _ = fmt.Fprintf(w, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,`+
				`"delta":{"content":"%s"},"logprobs":null,"finish_reason":%s}]}`+"\n\n", text, finish)
			_ = http.NewResponseController(w).Flush()
		}
		say("one", "null")
		select {
		case <-g.open:
		case <-r.Context().Done():
			return
		}
		say("two", `"stop"`)
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	default:
		http.NotFound(w, r)
	}
}

// scaleMesh is a mesh in this process over workers at urls, or over two simulated ones.
func scaleMesh(t *testing.T, urls ...string) string {
	t.Helper()
	cfg := workersConfig(t, urls...)
	for i := len(urls); i < 2; i++ {
		cfg.Mesh.Simulated = append(cfg.Mesh.Simulated, mesh.Simulated{Config: fakevllm.Config{
			Model: base, VocabSize: 8000, NumGPUBlocks: 4096, Speedup: 50,
		}})
	}
	cfg.Gateway.Own = gateway.Config{Address: "127.0.0.1:0", Quiet: true}
	cfg.Gateway.Server.Address = "mem://gateway"
	// By default a worker gets 1.5 times as many requests as it computes at once; the others wait at the scheduler.
	cfg.Scheduler.Own.Worker.MaxInflight = 5000
	m, err := mesh.New(cfg, mesh.Deps{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	require.NoError(t, m.Start(ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		require.NoError(t, m.Stop(ctx))
	})
	return m.URL(t.Context())
}

// process is what this process holds: memory in use by Go's heap and stacks, descriptors, goroutines.
type process struct{ memory, descriptors, goroutines int }

func measured(t *testing.T) process {
	t.Helper()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return process{int(m.HeapInuse + m.StackInuse), len(files), runtime.NumGoroutine()}
}

// descriptorsFor fails when the process may not open n descriptors: 3 per stream, since the client shares this process; a
// gateway of its own needs 2.
func descriptorsFor(t *testing.T, n int) {
	t.Helper()
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	require.GreaterOrEqual(t, limit.Cur, uint64(n), "raise `ulimit -n` to %d", n)
}

// TestScaleStreams: thousands of streams are open at one gateway at the same moment, each has its first token, and each
// then ends whole.
func TestScaleStreams(t *testing.T) {
	n := scale(5000, 200)
	descriptorsFor(t, 3*n+200)
	workers := []string{startGated(t), startGated(t)}
	url := scaleMesh(t, workers...)
	before := measured(t)
	type open struct {
		conn net.Conn
		body *bufio.Reader
	}
	streams := make([]open, n)
	errs := make([]error, n)
	var failed atomic.Bool
	each := func(do func(i int) error) {
		var wg sync.WaitGroup
		next := make(chan int)
		for range 64 {
			wg.Go(func() {
				for i := range next {
					if failed.Load() {
						continue
					}
					if errs[i] = do(i); errs[i] != nil {
						failed.Store(true)
					}
				}
			})
		}
		for i := range n {
			next <- i
		}
		close(next)
		wg.Wait()
	}
	start := time.Now()
	each(func(i int) error {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			return err
		}
		streams[i] = open{conn, bufio.NewReaderSize(conn, 1024)}
		body := fmt.Sprintf(`{"model":"%s","stream":true,"messages":[{"role":"user","content":"stream %d"}]}`, base, i)
		_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", len(body), body)
		return err
	})
	read := func(until string) func(i int) error {
		return func(i int) error {
			_ = streams[i].conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			for {
				line, err := streams[i].body.ReadString('\n')
				if status, ok := strings.CutPrefix(line, "HTTP/1.1 "); ok && !strings.HasPrefix(status, "200") {
					rest, _ := streams[i].body.Peek(streams[i].body.Buffered())
					return fmt.Errorf("the answer is %s%s", status, rest)
				}
				if err != nil || strings.Contains(line, until) {
					return err
				}
			}
		}
	}
	each(read("one"))
	for i := range errs {
		require.NoError(t, errs[i], "stream %d", i)
	}
	opened := time.Since(start)
	during := measured(t)
	for _, w := range workers {
		resp, err := http.Get(w + "/open")
		require.NoError(t, err)
		resp.Body.Close()
	}
	each(read("[DONE]"))
	for i := range streams {
		require.NoError(t, errs[i], "stream %d", i)
		_ = streams[i].conn.Close()
	}
	t.Logf("%d streams open at once after %v, all whole after %v; client and mesh together hold %d descriptors, "+
		"%d goroutines, %.1f KB of heap and stacks per stream", n, opened.Round(time.Millisecond),
		time.Since(start).Round(time.Millisecond), during.descriptors, during.goroutines,
		float64(during.memory-before.memory)/float64(n)/1024)
}

// TestScalePrompts: one call with thousands of prompts is answered in order over few connections.
func TestScalePrompts(t *testing.T) {
	n := scale(10000, 300)
	url := scaleMesh(t)
	prompts := make([]string, n)
	for i := range prompts {
		prompts[i] = fmt.Sprintf("The boat with the number %d", i)
	}
	body, err := json.Marshal(map[string]any{"model": base, "prompt": prompts, "max_tokens": 1})
	require.NoError(t, err)
	before := measured(t)
	stop, peak := make(chan struct{}), make(chan process)
	go func() {
		var most process
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				files, _ := os.ReadDir("/proc/self/fd")
				most.descriptors = max(most.descriptors, len(files))
				most.memory = max(most.memory, int(m.HeapInuse+m.StackInuse))
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	start := time.Now()
	resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(string(body)))
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		Choices []struct{ Index int }
		Usage   struct {
			CompletionTokens int `json:"completion_tokens"`
		}
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	took := time.Since(start)
	close(stop)
	most := <-peak
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, answer.Choices, n)
	for i, c := range answer.Choices {
		require.Equal(t, i, c.Index)
	}
	require.Equal(t, n, answer.Usage.CompletionTokens)
	require.Less(t, most.descriptors, before.descriptors+4*64, "prompts share pooled connections")
	t.Logf("%d prompts in %v; at most %d descriptors above the idle mesh, %.1f MB of heap and stacks above it, simulated "+
		"workers included", n, took.Round(time.Millisecond), most.descriptors-before.descriptors,
		float64(most.memory-before.memory)/(1<<20))
}
