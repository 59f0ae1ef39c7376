package cli

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// result is what one run of the command line left.
type result struct {
	code        int
	out, errors string
}

// execute runs a command line to its end.
func execute(t *testing.T, input string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := Run(t.Context(), Process{
		Args: args, Stdin: strings.NewReader(input), Stdout: &out, Stderr: &errs, Signals: make(chan os.Signal),
	})
	return result{code, out.String(), errs.String()}
}

// repository is the checkout's root.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "..", ".."))
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "go.work"), "the test runs in the checkout")
	return dir
}

func TestHelpTeaches(t *testing.T) {
	t.Parallel()
	got := execute(t, "", "--help")
	require.Equal(t, exitOK, got.code)
	for _, word := range []string{"up", "serve", "health", "route", "sim", "template render", "tokenize", "doctor", "parity", "fakevllm"} {
		require.Contains(t, got.out, word)
	}
}

func TestMistakesSayWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("gatway: {}\nmesh: {workers: [{id: a}]}\nscheduler: {policy: best}\n"), 0o600))
	good := filepath.Join(dir, "good.yaml")
	require.NoError(t, os.WriteFile(good, []byte("log: {level: warn}\n"), 0o600))
	rows := []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"unknown command", []string{"start"}, exitUsage, []string{"kvmesh --help"}},
		{"no configuration here", []string{"up"}, exitFailed, []string{"deploy/config/demo.yaml", "--config FILE"}},
		{"mesh with a file", []string{"up", "--mesh", "--config", bad}, exitFailed, []string{"leave out --config"}},
		{"mesh with a key", []string{"up", "--mesh", "--set", "log.level=warn"}, exitFailed, []string{"--set"}},
		{"wrong configuration", []string{"config", "--config", bad}, exitFailed, []string{"gatway", "gateway"}},
		{
			"wrong override",
			[]string{"config", "--config", good, "--set", "gateway.attempts=x"},
			exitFailed,
			[]string{"kvmesh: the configuration is wrong:\ngateway.attempts: is not a whole number (from --set)\n"},
		},
		{
			"override that no section takes",
			[]string{"config", "--config", good, "--set", "gateway.hedge.budget=2"},
			exitFailed,
			[]string{"kvmesh: the configuration is wrong:\ngateway.hedge.budget: must be more than 0 and at most 1 (from --set)\n"},
		},
		{
			"override without a value",
			[]string{"config", "--config", good, "--set", "gateway"},
			exitFailed,
			[]string{"the configuration is wrong:\ngateway: write --set section.key=value (from --set)\n"},
		},
		{
			"wrong file and override",
			[]string{"config", "--config", bad, "--set", "gateway.attempts=x"},
			exitFailed,
			[]string{"the configuration bad.yaml is wrong:\n", "gateway.attempts: is not a whole number (from --set)\n"},
		},
		{"serve without a file", []string{"serve", "gateway"}, exitFailed, []string{"--config FILE"}},
		{"nobody there", []string{"workers", "--url", "http://127.0.0.1:1"}, exitFailed, []string{"is the mesh up?"}},
		{"health of nobody", []string{"health", "tcp://127.0.0.1:1"}, exitFailed, []string{"nobody answers"}},
		{"render without a template", []string{"template", "render"}, exitFailed, []string{"--template FILE"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := execute(t, "", row.args...)
			require.Equal(t, row.code, got.code, got.errors)
			for _, want := range row.want {
				require.Contains(t, got.errors, want)
			}
		})
	}
}

func TestToolsRun(t *testing.T) {
	t.Parallel()
	demo := filepath.Join(repository(t), "deploy", "demo-model")
	got := execute(t, `[{"role":"user","content":"hi"}]`, "template", "render", "--model", demo)
	require.Equal(t, exitOK, got.code, got.errors)
	require.Contains(t, got.out, "<|im_start|>user\nhi<|im_end|>")
	got = execute(t, `{"template":"{{ 1 + 1 }}"}`, "template", "render", "--batch")
	require.Equal(t, "{\"text\":\"2\"}\n", got.out)
	got = execute(t, "", "tokenize", "--model", demo, "hello")
	require.Equal(t, exitOK, got.code, got.errors)
	require.NotEmpty(t, strings.Fields(got.out))
	got = execute(t, "", "version")
	require.Equal(t, exitOK, got.code)
	require.NotEmpty(t, got.out)
}

func TestConfigIsPrintedWithoutSecrets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(repository(t), "deploy", "config", "demo.yaml")
	got := execute(t, "", "config", "--config", file, "--set", "gateway.worker_key=hunter2", "--set", "scheduler.policy=lmetric")
	require.Equal(t, exitOK, got.code, got.errors)
	require.Contains(t, got.out, "policy: lmetric")
	require.Contains(t, got.out, "kvmesh/demo")
	require.NotContains(t, got.out, "hunter2")
}

// TestReferencePageIsCurrent compares docs/configuration.md with what the code says.
func TestReferencePageIsCurrent(t *testing.T) {
	t.Parallel()
	got := execute(t, "", "config", "--reference")
	require.Equal(t, exitOK, got.code, got.errors)
	page, err := os.ReadFile(filepath.Join(repository(t), "docs", "configuration.md"))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(strings.TrimSpace(string(page)), strings.TrimSpace(got.out)),
		"docs/configuration.md is not current: run make generate")
}

func TestAskingAMesh(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":[{"id":"m","parent":null,"max_model_len":4096}]}`))
	})
	mux.HandleFunc("GET /kvmesh/v1/workers", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"workers":[{"card":{"worker_id":"w","state":"WORKER_STATE_READY",` +
			`"event_state":"EVENT_STATE_OFF","event_detail":"start vLLM with events"},"certainty":"CERTAINTY_FALLBACK","units":"7"}]}`))
	})
	mux.HandleFunc("GET /kvmesh/v1/receipts/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") != "r1" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":{"message":"no such receipt"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"receipts":[{"chosen":{"worker_id":"w"},"reason":"prefill"}]}`))
	})
	mux.HandleFunc("POST /kvmesh/v1/explain", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"receipt":{"reason":"prefill"}}`))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	rows := []struct {
		name  string
		args  []string
		input string
		code  int
		want  []string
	}{
		{"models", []string{"models"}, "", exitOK, []string{"m", "4096"}},
		{"workers", []string{"workers"}, "", exitOK, []string{"ready", "off", "fallback", "7", "w: start vLLM with events"}},
		{"workers as JSON", []string{"workers", "--json"}, "", exitOK, []string{`"worker_id": "w"`}},
		{"receipt", []string{"receipt", "r1"}, "", exitOK, []string{"w rank 0", "prefill"}},
		{"receipt as JSON", []string{"receipt", "r1", "--json"}, "", exitOK, []string{`"receipts"`}},
		{"no such receipt", []string{"receipt", "r2"}, "", exitFailed, []string{"404", "no such receipt"}},
		{"route", []string{"route", "-"}, `{"messages":[]}`, exitOK, []string{"nobody", ": prefill"}},
		{"route as JSON", []string{"route", "--json", "-"}, `{"messages":[]}`, exitOK, []string{`"prefill"`}},
	}
	t.Run("rows", func(t *testing.T) {
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				got := execute(t, row.input, append(row.args, "--url", server.URL)...)
				require.Equal(t, row.code, got.code, got.errors)
				for _, want := range row.want {
					require.Contains(t, got.out+got.errors, want)
				}
			})
		}
	})
}

// writer tells a test when a text was written.
type writer struct {
	buf  bytes.Buffer
	want string
	seen chan struct{}
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.buf.Write(p)
	if w.want != "" && strings.Contains(w.buf.String(), w.want) {
		w.want = ""
		close(w.seen)
	}
	return n, err
}

// up starts the demo on free ports.
func up(t *testing.T, set ...string) (signals chan os.Signal, out *writer, ended chan result) {
	t.Helper()
	args := []string{"up", "--config", filepath.Join(repository(t), "deploy", "config", "demo.yaml")}
	sets := append([]string{
		"gateway.address=127.0.0.1:0", "gateway.server.address=mem://gateway", "mesh.admin.address=tcp://127.0.0.1:0",
		"log.level=error",
	}, set...)
	for _, s := range sets {
		args = append(args, "--set", s)
	}
	signals = make(chan os.Signal, 2)
	out = &writer{want: "Ctrl-C stops it.", seen: make(chan struct{})}
	ended = make(chan result, 1)
	go func() {
		var errs bytes.Buffer
		code := Run(t.Context(), Process{
			Args: args, Environ: []string{"MODEL_PATH=" + filepath.Join(repository(t), "deploy", "demo-model")},
			Stdout: out, Stderr: &errs, Signals: signals,
		})
		ended <- result{code, "", errs.String()}
	}()
	return signals, out, ended
}

func TestUpGreetsAndStopsWithASignal(t *testing.T) {
	signals, out, ended := up(t)
	select {
	case <-out.seen:
	case got := <-ended:
		require.Fail(t, "the mesh ended", got.errors)
	}
	lines := out.buf.String()
	printed := parseCurl(t, strings.TrimSpace(lines[strings.Index(lines, "curl "):strings.Index(lines, "}'")+2]))
	printed.answers(t, printed.url)
	shown := parseCurl(t, block(t, documents(t)["README.md"], "sh", "curl "))
	shown.answers(t, printed.url) // the README's address is the default port, this mesh has another
	signals <- syscall.SIGINT
	got := kittest.Recv(t, ended)
	require.Equal(t, exitOK, got.code, got.errors)
	for _, want := range []string{"curl http://127.0.0.1:", "kvmesh/demo", "sim-0", "sim-1", "(simulated)", "stopping"} {
		require.Contains(t, out.buf.String(), want)
	}
}

func TestUpNamesATakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { taken.Close() })
	for _, key := range []string{"gateway.address", "mesh.admin.address=tcp://", "gateway.server.address=tcp://"} {
		if !strings.Contains(key, "=") {
			key += "="
		}
		_, _, ended := up(t, key+taken.Addr().String())
		got := kittest.Recv(t, ended)
		require.Equal(t, exitFailed, got.code)
		require.Contains(t, got.errors, taken.Addr().String())
		require.Contains(t, got.errors, "taken")
	}
}
