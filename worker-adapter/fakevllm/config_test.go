package fakevllm_test

import (
	"context"
	"os"
	"path/filepath"
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
		BlockSize: -1, NumGPUBlocks: 1, Profile: "abacus", Speedup: -2, SchedulingPolicy: "lifo", ReasoningParser: "x",
		Version: "new", LoRAs: []fakevllm.LoRA{{Name: "a"}}, Faults: fakevllm.Faults{Status: 7}, VocabSize: 10,
		KVEvents: fakevllm.KVEvents{Enable: true, Endpoint: "here", ReplayEndpoint: "there", Format: "xml", ReplayTopic: "maybe"},
	}
	c.SetDefaults()
	err := c.Validate()
	for _, path := range []string{
		"block_size", "num_gpu_blocks", "profile", "speedup", "scheduling_policy", "reasoning_parser", "version", "loras[0]",
		"faults", "vocab_size", "kv_events.endpoint", "kv_events.replay_endpoint", "kv_events.format", "kv_events.replay_topic",
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
