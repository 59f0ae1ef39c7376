package fakevllm

import (
	"context"
	"fmt"
	"log/slog"
	"os"
)

// Command runs one simulated worker from the command line. Flags that are set win over the configuration file. It
// mounts into a kong grammar; the context of its Run must end when the process is to stop.
type Command struct {
	Config       string   `help:"YAML file with the worker's configuration, alone or as the section fakevllm of a deployment." type:"path"`
	Listen       string   `help:"HTTP address, for example 127.0.0.1:8000."`
	Model        string   `help:"Served model name."`
	BlockSize    int      `help:"Tokens in a KV cache block."`
	NumGPUBlocks int      `name:"num-gpu-blocks-override" help:"KV cache blocks."`
	MaxModelLen  int      `help:"Longest context in tokens."`
	MaxNumSeqs   int      `help:"Sequences that may run at once."`
	DataParallel int      `name:"data-parallel-size" help:"Data-parallel ranks."`
	Profile      string   `help:"Built-in step-time model."`
	Speedup      float64  `help:"Divides all step times."`
	Instant      bool     `help:"Steps take no time."`
	Events       string   `help:"Event endpoint, for example tcp://*:5557; sets kv_events on."`
	Replay       string   `help:"Replay endpoint, for example tcp://*:5558."`
	Topic        string   `help:"Event topic."`
	APIKey       []string `name:"api-key" help:"Key that /v1 routes want."`
	VLLMVersion  string   `name:"vllm-version" help:"vLLM version whose wire format is spoken."`
}

// Run loads the configuration, says where the worker listens and serves until ctx ends.
func (c *Command) Run(ctx context.Context) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	deps := Deps{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	closeConns, err := cfg.connect(&deps)
	if err != nil {
		return err
	}
	defer closeConns()
	s, err := New(cfg, deps)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "simulated vLLM worker: http://%s model %s\n", s.Addr(), s.cfg.Model)
	if live, replay := s.EventEndpoints(0); live != "" {
		fmt.Fprintf(os.Stdout, "events %s replay %s\n", live, replay)
	}
	return s.Run(ctx)
}

// load reads the file, if one is named, and puts the flags over it. Unknown keys are errors.
func (c *Command) load() (Config, error) {
	cfg, err := readConfig(c.Config)
	if err != nil {
		return cfg, err
	}
	over(&cfg.Listen, c.Listen)
	over(&cfg.Model, c.Model)
	over(&cfg.BlockSize, c.BlockSize)
	over(&cfg.NumGPUBlocks, c.NumGPUBlocks)
	over(&cfg.MaxModelLen, c.MaxModelLen)
	over(&cfg.MaxNumSeqs, c.MaxNumSeqs)
	over(&cfg.DataParallelSize, c.DataParallel)
	over(&cfg.Profile, c.Profile)
	over(&cfg.Speedup, c.Speedup)
	over(&cfg.Instant, c.Instant)
	over(&cfg.KVEvents.Endpoint, c.Events)
	over(&cfg.KVEvents.Enable, c.Events != "")
	over(&cfg.KVEvents.ReplayEndpoint, c.Replay)
	over(&cfg.KVEvents.Topic, c.Topic)
	over(&cfg.Version, c.VLLMVersion)
	if len(c.APIKey) > 0 {
		cfg.APIKeys = c.APIKey
	}
	return cfg, nil
}

// over takes a flag that is set.
func over[T comparable](field *T, flag T) {
	var zero T
	if flag != zero {
		*field = flag
	}
}
