package fakevllm_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	var c fakevllm.Config
	c.SetDefaults()
	require.NoError(t, c.Validate())
	require.Equal(t, "0.32.0", c.Version)
	require.Equal(t, "./simulated-model", c.Root)
}

func TestValidateNamesEveryFault(t *testing.T) {
	t.Parallel()
	c := fakevllm.Config{
		BlockSize: -1, NumGPUBlocks: 1, Profile: "abacus", Hybrid: fakevllm.Hybrid{SlidingGroups: 2}, Speedup: -2, SchedulingPolicy: "lifo", ReasoningParser: "x",
		Version: "new", LoRAs: []fakevllm.LoRA{{Name: "a"}}, Faults: fakevllm.Faults{Status: 7}, VocabSize: 10,
		KVEvents: fakevllm.KVEvents{Enable: true, Endpoint: "here", ReplayEndpoint: "there", Format: "xml", ReplayTopic: "maybe", BindHost: "me"},
	}
	c.SetDefaults()
	err := c.Validate()
	for _, path := range []string{
		"block_size", "num_gpu_blocks", "profile", "speedup", "scheduling_policy", "reasoning_parser", "version", "loras[0]",
		"faults", "vocab_size", "kv_events.endpoint", "kv_events.replay_endpoint", "kv_events.format", "kv_events.replay_topic",
		"kv_events.bind_host", "hybrid.window_tokens",
	} {
		require.ErrorContains(t, err, path+": ")
	}
	_, err = fakevllm.New(c, fakevllm.Deps{})
	require.ErrorContains(t, err, "simulated worker configuration: ")
}

func TestPortsThatAreTaken(t *testing.T) {
	t.Parallel()
	s, _ := start(t, captured())
	live, again := s.EventEndpoints(0)
	for _, row := range []struct {
		name string
		cfg  fakevllm.Config
		want string
	}{
		{"HTTP", fakevllm.Config{Listen: s.Addr()}, "listen for HTTP"},
		{"control", fakevllm.Config{Control: s.Addr()}, "listen for control"},
		{"events", fakevllm.Config{KVEvents: fakevllm.KVEvents{Enable: true, Endpoint: live}}, "bind event endpoint"},
		{"replay", fakevllm.Config{KVEvents: fakevllm.KVEvents{Enable: true, ReplayEndpoint: again}}, "bind replay endpoint"},
		{
			"ranks on a socket file",
			fakevllm.Config{DataParallelSize: 2, KVEvents: fakevllm.KVEvents{
				Enable: true, Endpoint: "ipc://" + filepath.Join(t.TempDir(), "kv"),
			}},
			"must contain 'inproc' or 'tcp'",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := fakevllm.New(row.cfg, fakevllm.Deps{})
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestServerThatNeverRan(t *testing.T) {
	t.Parallel()
	s, err := fakevllm.New(captured(), fakevllm.Deps{})
	require.NoError(t, err)
	require.ErrorContains(t, s.Ready(t.Context()), "not begun")
	s.Close()
	s.Close()
	require.Error(t, s.Run(t.Context()))
}

func TestCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "worker.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	write("model: from-file\nblock_size: 8\n")
	cmd := fakevllm.Command{Config: file, Instant: true, Events: "tcp://*:0", Replay: "tcp://*:0", APIKey: []string{"k"}}
	require.NoError(t, cmd.Run(ended))
	write("modle: x\n")
	require.ErrorContains(t, cmd.Run(ended), "read configuration")
	cmd.Config = file + ".none"
	require.ErrorContains(t, cmd.Run(ended), "open configuration")
	cmd.Config, cmd.Profile = "", "abacus"
	require.ErrorContains(t, cmd.Run(ended), "unknown profile")
}

// TestHealthCommand asks as the image's check does: of a worker that serves, of one that does not, and without a place.
func TestHealthCommand(t *testing.T) {
	t.Parallel()
	_, url := start(t, captured())
	address := strings.TrimPrefix(url, "http://")
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "worker.yaml")
	require.NoError(t, os.WriteFile(file, []byte("fakevllm:\n  listen: 0.0.0.0:"+port+"\n"), 0o600))
	sick := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(sick.Close)
	for _, row := range []struct {
		name string
		cmd  fakevllm.HealthCommand
		want string
	}{
		{name: "the file's address, on all interfaces", cmd: fakevllm.HealthCommand{Config: file}},
		{name: "the flag wins", cmd: fakevllm.HealthCommand{Config: file, Listen: address}},
		{name: "sick", cmd: fakevllm.HealthCommand{Listen: sick.Listener.Addr().String()}, want: "503"},
		{name: "nobody there", cmd: fakevllm.HealthCommand{Listen: "127.0.0.1:1"}, want: "nobody answers at 127.0.0.1:1"},
		{name: "no address", want: "--listen"},
		{name: "ephemeral port", cmd: fakevllm.HealthCommand{Listen: "127.0.0.1:0"}, want: "--listen"},
		{name: "no file", cmd: fakevllm.HealthCommand{Config: file + ".none"}, want: "open configuration"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := row.cmd.Run(t.Context())
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
		})
	}
}
