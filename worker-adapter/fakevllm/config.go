package fakevllm

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/kvmesh/kvmesh/services/kit/conf"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/engine"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/fault"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/plain"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/publish"
)

// Faults are the switches that make the worker misbehave.
type Faults = fault.Set

// Profile holds the coefficients of the step-time model, in seconds.
type Profile = engine.Profile

// KVEvents is vLLM's --kv-events-config with the switches of its format.
type KVEvents struct {
	Enable bool `yaml:"enable_kv_cache_events"`
	// Endpoint of the PUB socket. As in vLLM it is bound only if it holds "*" or "::" or is ipc://; port 0 (or "*") is
	// an ephemeral port, which GET /kv_event_sources tells.
	Endpoint string `yaml:"endpoint"`
	// ReplayEndpoint of the ROUTER socket, always bound; "" serves no replay.
	ReplayEndpoint string `yaml:"replay_endpoint"`
	// BindHost is the interface that "*" means; "" is every one, as in vLLM.
	BindHost     string `yaml:"bind_host"`
	BufferSteps  int    `yaml:"buffer_steps"`
	HWM          int    `yaml:"hwm"`
	MaxQueueSize int    `yaml:"max_queue_size"`
	Topic        string `yaml:"topic"`
	// Format is "maps" (vLLM 0.24 and later), "arrays" (0.23 and before) or "" to follow Version.
	Format string `yaml:"format"`
	// ReplayTopic is "on" (vLLM 0.26 and later), "off" or "" to follow Version: whether replies carry the topic frame.
	ReplayTopic string `yaml:"replay_topic"`
	// BytesHashes sends 32-byte hashes, as VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0 does.
	BytesHashes bool `yaml:"bytes_hashes"`
}

// Hybrid makes the worker serve a model with several cache groups, as vLLM numbers them: sliding-window groups first,
// then one of full attention. A hit ends only where all of them can end one.
type Hybrid = engine.Hybrid

// LoRA is an adapter that is loaded from the start.
type LoRA struct {
	Name string `yaml:"name"`
	Path string `yaml:"path"`
}

// Config is a worker's configuration. The zero value with SetDefaults is a usable worker on an ephemeral port.
type Config struct {
	// Listen is the HTTP address; port 0 is ephemeral.
	Listen string `yaml:"listen"`
	// Control is a second address that serves only /fakevllm/faults, reachable while the first refuses; "" for none.
	Control string `yaml:"control"`
	// Model is the served name, Aliases are further ones; Root is what /v1/models calls the model's path.
	Model   string   `yaml:"model"`
	Aliases []string `yaml:"aliases"`
	Root    string   `yaml:"root"`
	// Version is the vLLM version whose wire format is spoken; /version adds "-simulated".
	Version string `yaml:"version"`

	BlockSize           int `yaml:"block_size"`     // tokens
	NumGPUBlocks        int `yaml:"num_gpu_blocks"` // as vLLM counts: one of them is never used
	MaxModelLen         int `yaml:"max_model_len"`  // tokens
	MaxNumSeqs          int `yaml:"max_num_seqs"`
	MaxNumBatchedTokens int `yaml:"max_num_batched_tokens"`
	MaxNumQueuedReqs    int `yaml:"max_num_queued_reqs"` // 0 is no limit
	DataParallelSize    int `yaml:"data_parallel_size"`
	VocabSize           int `yaml:"vocab_size"`
	EOSTokenID          int `yaml:"eos_token_id"` // 0 asks the tokenizer
	// SchedulingPolicy is "fcfs" or "priority".
	SchedulingPolicy     string `yaml:"scheduling_policy"`
	DisablePrefixCaching bool   `yaml:"disable_prefix_caching"`
	// Hybrid has sliding_groups and window_tokens; no groups are a plain model.
	Hybrid Hybrid `yaml:"hybrid"`
	// DropLastHit computes the last block of every hit again, as vLLM does with EAGLE and MTP.
	DropLastHit bool `yaml:"drop_last_hit"`

	// Profile names a built-in step-time model, Coefficients (if not zero) replace it. Speedup divides step times;
	// Instant makes them nothing.
	Profile      string  `yaml:"profile"`
	Coefficients Profile `yaml:"coefficients"`
	Speedup      float64 `yaml:"speedup"`
	Instant      bool    `yaml:"instant"`
	// AnswerMinTokens and AnswerMaxTokens bound answers that end by themselves.
	AnswerMinTokens int `yaml:"answer_min_tokens"`
	AnswerMaxTokens int `yaml:"answer_max_tokens"`

	KVEvents KVEvents `yaml:"kv_events"`
	// LoRAs are loaded from the start; any path is taken for an adapter.
	LoRAs    []LoRA `yaml:"loras"`
	MaxLoRAs int    `yaml:"max_loras"`
	// APIKeys guard the /v1 routes; health, metrics, tokenize and developers' routes stay open, as in vLLM.
	APIKeys []string `yaml:"api_keys"`

	// What follows are vLLM's flags. Those that a worker behind a router wants are on unless they are disabled:
	// --enable-prompt-tokens-details, --enable-request-id-headers, a tool parser, VLLM_SERVER_DEV_MODE,
	// VLLM_ALLOW_RUNTIME_LORA_UPDATING and --enable-server-load-tracking.
	DisablePromptTokensDetails bool   `yaml:"disable_prompt_tokens_details"`
	DisableRequestIDHeaders    bool   `yaml:"disable_request_id_headers"`
	ForceIncludeUsage          bool   `yaml:"force_include_usage"`
	ReasoningParser            string `yaml:"reasoning_parser"` // "qwen3" or ""
	DisableToolParser          bool   `yaml:"disable_tool_parser"`
	DisableDevMode             bool   `yaml:"disable_dev_mode"`
	DisableRuntimeLoRA         bool   `yaml:"disable_runtime_lora"`
	DisableLoadTracking        bool   `yaml:"disable_load_tracking"`
	// TokenizerInfo names a tokenizer_config.json that /tokenizer_info tells, as with --enable-tokenizer-info-endpoint;
	// "" serves no such route.
	TokenizerInfo string `yaml:"tokenizer_info"`
	// ScaleOut serves the render and generate routes, which answer 403 without it.
	ScaleOut bool `yaml:"scale_out"`
	// Pooling serves the routes of a pooling model beside those of a generating one.
	Pooling       bool  `yaml:"pooling"`
	EmbeddingSize int   `yaml:"embedding_size"`
	MaxBodyBytes  int64 `yaml:"max_body_bytes"`

	Faults Faults `yaml:"faults"`

	// Services are the mesh's own tokenizer and templates; without them the worker uses plain ones of its own.
	Services Services `yaml:"services"`
}

// Services are gRPC addresses of template-svc and tokenizer-svc; both or neither.
type Services struct {
	Template  string `yaml:"template"`
	Tokenizer string `yaml:"tokenizer"`
}

// SetDefaults fills what is zero.
func (c *Config) SetDefaults() {
	conf.Default(&c.Listen, "127.0.0.1:0")
	conf.Default(&c.Model, "simulated-model")
	conf.Default(&c.Root, "./"+c.Model)
	conf.Default(&c.Version, "0.32.0")
	conf.Default(&c.BlockSize, 16)
	conf.Default(&c.NumGPUBlocks, 8192)
	conf.Default(&c.MaxModelLen, 32768)
	conf.Default(&c.MaxNumSeqs, 256)
	conf.Default(&c.MaxNumBatchedTokens, 8192)
	conf.Default(&c.DataParallelSize, 1)
	conf.Default(&c.VocabSize, 151936)
	conf.Default(&c.SchedulingPolicy, "fcfs")
	conf.Default(&c.Profile, "h100-llama-8b")
	conf.Default(&c.Speedup, 1)
	conf.Default(&c.AnswerMinTokens, 24)
	conf.Default(&c.AnswerMaxTokens, max(96, c.AnswerMinTokens))
	conf.Default(&c.KVEvents.Endpoint, "tcp://*:0")
	conf.Default(&c.KVEvents.BufferSteps, 10000)
	conf.Default(&c.KVEvents.HWM, 100000)
	conf.Default(&c.KVEvents.MaxQueueSize, 100000)
	conf.Default(&c.MaxLoRAs, 2)
	conf.Default(&c.EmbeddingSize, 64)
	conf.Default(&c.MaxBodyBytes, 64<<20)
}

// Validate returns all faults at once, each with its path.
func (c *Config) Validate() error {
	var errs []error
	fail := func(path, format string, a ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, a...)))
	}
	for _, n := range []struct {
		path      string
		value, lo int
	}{
		{"block_size", c.BlockSize, 1},
		{"num_gpu_blocks", c.NumGPUBlocks, 2},
		{"max_model_len", c.MaxModelLen, 1},
		{"max_num_seqs", c.MaxNumSeqs, 1},
		{"max_num_batched_tokens", c.MaxNumBatchedTokens, 1},
		{"max_num_queued_reqs", c.MaxNumQueuedReqs, 0},
		{"data_parallel_size", c.DataParallelSize, 1},
		{"vocab_size", c.VocabSize, int(plain.VocabSize)},
		{"answer_min_tokens", c.AnswerMinTokens, 1},
		{"answer_max_tokens", c.AnswerMaxTokens, c.AnswerMinTokens},
		{"kv_events.buffer_steps", c.KVEvents.BufferSteps, 1},
		{"kv_events.hwm", c.KVEvents.HWM, 0},
		{"max_loras", c.MaxLoRAs, 0},
		{"hybrid.sliding_groups", c.Hybrid.SlidingGroups, 0},
		{"hybrid.window_tokens", c.Hybrid.WindowTokens, min(c.Hybrid.SlidingGroups, 2)},
		{"eos_token_id", c.EOSTokenID, 0},
		{"embedding_size", c.EmbeddingSize, 1},
	} {
		if n.value < n.lo {
			fail(n.path, "%d is less than %d", n.value, n.lo)
		}
	}
	if _, err := engine.ProfileByName(c.Profile); err != nil && c.Coefficients == (Profile{}) {
		fail("profile", "%v", err)
	}
	if c.Speedup <= 0 {
		fail("speedup", "%v is not positive; instant makes steps take no time", c.Speedup)
	}
	oneOf := func(path, value string, words ...string) {
		for _, w := range words {
			if value == w {
				return
			}
		}
		fail(path, "%q is none of %q", value, words)
	}
	oneOf("scheduling_policy", c.SchedulingPolicy, "fcfs", "priority")
	oneOf("reasoning_parser", c.ReasoningParser, "", "qwen3")
	oneOf("kv_events.format", c.KVEvents.Format, "", "maps", "arrays")
	oneOf("kv_events.replay_topic", c.KVEvents.ReplayTopic, "", "on", "off")
	if _, _, err := c.versionNumbers(); err != nil {
		fail("version", "%v", err)
	}
	if host := c.KVEvents.BindHost; host != "" && net.ParseIP(host) == nil {
		fail("kv_events.bind_host", "%q is no IP address", host)
	}
	for path, at := range map[string]string{
		"kv_events.endpoint": c.KVEvents.Endpoint, "kv_events.replay_endpoint": c.KVEvents.ReplayEndpoint,
	} {
		if err := publish.CheckEndpoint(at); c.KVEvents.Enable && at != "" && err != nil {
			fail(path, "%v", err)
		}
	}
	for i, l := range c.LoRAs {
		if l.Name == "" || l.Path == "" {
			fail(fmt.Sprintf("loras[%d]", i), "name and path must be set")
		}
	}
	if err := c.Faults.Validate(); err != nil {
		fail("faults", "%v", err)
	}
	return errors.Join(errs...)
}

// versionNumbers takes "0.32.0" apart.
func (c *Config) versionNumbers() (major, minor int, err error) {
	if _, err := fmt.Sscanf(strings.TrimPrefix(c.Version, "v"), "%d.%d", &major, &minor); err != nil {
		return 0, 0, fmt.Errorf("%q is no version like 0.32.0", c.Version)
	}
	return major, minor, nil
}

// since tells whether the spoken version is at least 0.minor.
func (c *Config) since(minor int) bool {
	major, have, _ := c.versionNumbers()
	return major > 0 || have >= minor
}
