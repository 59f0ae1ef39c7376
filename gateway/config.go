package gateway

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/kvmesh/kvmesh/gateway/internal/admit"
	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// Config is the section "gateway" of a deployment's file. Durations are written "500ms", "30s".
type Config struct {
	Address string `yaml:"address" doc:"where REST is served"`
	TLSCert string `yaml:"tls_cert" doc:"certificate of the REST server, a PEM file; together with tls_key"`
	TLSKey  string `yaml:"tls_key" doc:"its private key, a PEM file"`

	MaxBodyBytes     int64 `yaml:"max_body_bytes" doc:"bounds a request body; larger ones are answered with 413"`
	MaxDepth         int   `yaml:"max_depth" doc:"bounds the nesting of request bodies"`
	MaxChoices       int   `yaml:"max_choices" doc:"bounds prompts times n of one request; 0 does not"`
	MaxEventBytes    int   `yaml:"max_event_bytes" doc:"bounds one event of a worker's stream"`
	PlainBufferBytes int   `yaml:"plain_buffer_bytes" doc:"part of a plain answer that is held back for a second try"`

	RequestTimeout    time.Duration `yaml:"request_timeout" doc:"bounds every request; 0 does not"`
	StreamIdleTimeout time.Duration `yaml:"stream_idle_timeout" doc:"bounds the silence inside a stream; 0 does not"`
	KeepaliveInterval time.Duration `yaml:"keepalive_interval" doc:"silence after which a stream gets a comment; 0 sends none"`
	PromptBudget      time.Duration `yaml:"prompt_budget" doc:"longest time that rendering and tokenising may add"`
	Attempts          int           `yaml:"attempts" doc:"how many workers one prompt may be sent to"`
	Hedge             HedgeConfig   `yaml:"hedge" doc:"a second worker for a first byte that is late"`
	ContinueStreams   bool          `yaml:"continue_streams" doc:"broken greedy streams go on at another worker"`
	FanoutConcurrency int           `yaml:"fanout_concurrency" doc:"how many prompts of one request run at once"`
	SendTokenIDs      bool          `yaml:"send_token_ids" doc:"sends token ids where a parity probe allows"`

	Keys        []Key    `yaml:"keys" doc:"callers' keys; without any, everybody is let in"`
	WorkerKey   string   `yaml:"worker_key" doc:"the workers' own key" redact:"true"`
	CORSOrigins []string `yaml:"cors_origins" doc:"pages that browsers may call from; 'none' forbids all"`

	Aliases      map[string]string `yaml:"aliases" doc:"maps names that clients use to models' ids"`
	DefaultModel string            `yaml:"default_model" doc:"serves requests without a model or with an unknown one"`
	FleetRefresh time.Duration     `yaml:"fleet_refresh" doc:"how often the list of models is read from the scheduler"`

	MaxInflight          int           `yaml:"max_inflight" doc:"bounds running requests; 0 does not"`
	MaxInflightPerWorker int           `yaml:"max_inflight_per_worker" doc:"bounds the calls of this gateway that run at one worker; 0 does not"`
	QueueLimit           int           `yaml:"queue_limit" doc:"bounds waiting requests; a negative one lets nobody wait"`
	QueueTimeout         time.Duration `yaml:"queue_timeout" doc:"bounds the wait; a negative one does not"`

	LoRA LoRAConfig `yaml:"lora" doc:"LoRA adapters that are loaded when a request names them"`

	Worker       WorkerConfig     `yaml:"worker" doc:"the HTTP client for workers"`
	Services     ServiceAddresses `yaml:"services" doc:"where the other services are"`
	DrainGrace   time.Duration    `yaml:"drain_grace" doc:"time for new requests after unready"`
	DrainTimeout time.Duration    `yaml:"drain_timeout" doc:"bounds the wait for running requests at the end"`
	Quiet        bool             `yaml:"quiet" doc:"writes no line per request"`
}

// ServiceAddresses are gRPC addresses (mem://, unix://, tcp://) of the services behind the gateway.
type ServiceAddresses struct {
	Template  string           `yaml:"template" doc:"the template service"`
	Tokenizer string           `yaml:"tokenizer" doc:"the tokenizer service"`
	Scheduler string           `yaml:"scheduler" doc:"the scheduler"`
	Client    rpc.ClientConfig `yaml:"client" doc:"connections to them"`
}

// HedgeConfig asks a second worker for the same answer when the first is late with its first byte, and takes the faster
// one. Without delay and quantile it is off.
type HedgeConfig struct {
	Delay    time.Duration `yaml:"delay" doc:"how long the first byte may take at least; 0 leaves it to quantile"`
	Quantile float64       `yaml:"quantile" doc:"waits as long as this share of recent first bytes took, such as 0.95"`
	Budget   float64       `yaml:"budget" doc:"share of requests that may be hedged"`
}

// LoRAConfig has workers load adapters that requests name and nobody serves, by vLLM's /v1/load_lora_adapter; the
// workers run with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1. Without a path it is off.
type LoRAConfig struct {
	Path         string        `yaml:"path" doc:"where workers find an adapter, such as /adapters/{name}; empty loads none"`
	Base         string        `yaml:"base" doc:"the model that adapters belong to"`
	Workers      int           `yaml:"workers" doc:"how many workers get an adapter"`
	MaxPerWorker int           `yaml:"max_per_worker" doc:"adapters that a worker may serve"`
	Timeout      time.Duration `yaml:"timeout" doc:"bounds a load"`
}

// Key is a caller's key.
type Key = admit.Key

// WorkerConfig limits connections to workers. There is no cap on how many are open.
type WorkerConfig struct {
	ConnectTimeout time.Duration `yaml:"connect_timeout" doc:"bounds dialling"`
	IdleTimeout    time.Duration `yaml:"idle_timeout" doc:"age of unused connections; vLLM closes its own at 5 s"`
	MaxIdle        int           `yaml:"max_idle" doc:"how many unused connections are kept per worker"`
}

// SetDefaults fills in what is empty. Every default is stated here alone.
func (c *Config) SetDefaults() {
	conf.Default(&c.Address, "127.0.0.1:8080")
	conf.Default(&c.MaxBodyBytes, 32<<20)
	conf.Default(&c.MaxDepth, 1000)
	conf.Default(&c.MaxEventBytes, 32<<20)
	conf.Default(&c.PlainBufferBytes, 4<<20)
	conf.Default(&c.PromptBudget, 500*time.Millisecond)
	conf.Default(&c.Attempts, 3)
	conf.Default(&c.Hedge.Budget, 0.05)
	conf.Default(&c.LoRA.Workers, 1)
	conf.Default(&c.LoRA.MaxPerWorker, 16)
	conf.Default(&c.LoRA.Timeout, time.Minute)
	conf.Default(&c.FanoutConcurrency, 32)
	if c.CORSOrigins == nil {
		c.CORSOrigins = []string{"*"}
	}
	conf.Default(&c.FleetRefresh, 500*time.Millisecond)
	conf.Default(&c.QueueLimit, 1024)
	conf.Default(&c.QueueTimeout, 30*time.Second)
	conf.Default(&c.Worker.ConnectTimeout, 2*time.Second)
	conf.Default(&c.Worker.IdleTimeout, 4*time.Second)
	conf.Default(&c.Worker.MaxIdle, 1024)
	conf.Default(&c.DrainTimeout, 30*time.Second)
	conf.Default(&c.Services.Template, "tcp://127.0.0.1:8181")
	conf.Default(&c.Services.Tokenizer, "tcp://127.0.0.1:8281")
	conf.Default(&c.Services.Scheduler, "tcp://127.0.0.1:8381")
	c.Services.Client.SetDefaults()
}

// Validate reports every fault at once, each with its path in the section.
func (c *Config) Validate() error {
	var f conf.Faults
	_, _, err := net.SplitHostPort(c.Address)
	f.Require(err == nil, "address", "must be host:port")
	f.Require((c.TLSCert == "") == (c.TLSKey == ""), "tls_cert", "must be given together with tls_key")
	for _, row := range []struct {
		path     string
		v, least int64
	}{
		{"max_body_bytes", c.MaxBodyBytes, 1},
		{"max_depth", int64(c.MaxDepth), 1},
		{"max_choices", int64(c.MaxChoices), 0},
		{"max_event_bytes", int64(c.MaxEventBytes), 1024},
		{"plain_buffer_bytes", int64(c.PlainBufferBytes), 4096},
		{"attempts", int64(c.Attempts), 1},
		{"fanout_concurrency", int64(c.FanoutConcurrency), 1},
		{"max_inflight", int64(c.MaxInflight), 0},
		{"max_inflight_per_worker", int64(c.MaxInflightPerWorker), 0},
		{"worker.max_idle", int64(c.Worker.MaxIdle), 0},
	} {
		f.Require(row.v >= row.least, row.path, "must be at least %d", row.least)
	}
	for _, row := range []struct {
		path string
		d    time.Duration
	}{
		{"prompt_budget", c.PromptBudget},
		{"fleet_refresh", c.FleetRefresh},
		{"worker.connect_timeout", c.Worker.ConnectTimeout},
		{"worker.idle_timeout", c.Worker.IdleTimeout},
		{"drain_timeout", c.DrainTimeout},
	} {
		f.Require(row.d > 0, row.path, "must be longer than 0")
	}
	for i, k := range c.Keys {
		f.Require((k.Key == "") != (k.SHA256 == ""), fmt.Sprintf("keys[%d]", i), "needs either key or sha256")
	}
	f.Under("hedge", c.Hedge.validate())
	f.Under("lora", c.LoRA.validate(c.DefaultModel))
	return f.Err()
}

func (h *HedgeConfig) validate() error {
	var f conf.Faults
	f.Require(h.Delay >= 0, "delay", "must not be negative")
	f.Require(h.Quantile >= 0 && h.Quantile < 1, "quantile", "must be from 0 to below 1")
	f.Require(h.Budget > 0 && h.Budget <= 1, "budget", "must be more than 0 and at most 1")
	return f.Err()
}

func (l *LoRAConfig) validate(defaultModel string) error {
	var f conf.Faults
	f.Require(l.Workers >= 1, "workers", "must be at least 1")
	f.Require(l.MaxPerWorker >= 1, "max_per_worker", "must be at least 1")
	f.Require(l.Timeout > 0, "timeout", "must be longer than 0")
	if l.Path == "" {
		return f.Err()
	}
	f.Require(strings.Contains(l.Path, "{name}"), "path", "must contain {name}")
	f.Require(l.Base != "", "base", "must name the model that adapters belong to")
	f.Require(defaultModel == "", "path", "cannot be combined with default_model, which serves unknown names")
	return f.Err()
}
