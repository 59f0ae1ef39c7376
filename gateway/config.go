package gateway

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/kvmesh/kvmesh/gateway/internal/admit"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// Config is the section "gateway" of a deployment's file. Durations are written "500ms", "30s".
type Config struct {
	// Address is where REST is served.
	Address string `yaml:"address"`
	// TLSCert and TLSKey are PEM files; both or neither.
	TLSCert string `yaml:"tls_cert"`
	TLSKey  string `yaml:"tls_key"`

	// MaxBodyBytes bounds a request body; larger ones are answered with 413.
	MaxBodyBytes int64 `yaml:"max_body_bytes"`
	// MaxDepth bounds the nesting of request bodies.
	MaxDepth int `yaml:"max_depth"`
	// MaxChoices bounds prompts times n of one request; 0 does not.
	MaxChoices int `yaml:"max_choices"`
	// MaxEventBytes bounds one event of a worker's stream.
	MaxEventBytes int `yaml:"max_event_bytes"`
	// PlainBufferBytes is how much of a plain answer is held back so that another worker can be tried when it breaks off.
	PlainBufferBytes int `yaml:"plain_buffer_bytes"`

	// RequestTimeout bounds every request; 0 does not. A client's x-request-timeout can only shorten it.
	RequestTimeout time.Duration `yaml:"request_timeout"`
	// StreamIdleTimeout bounds the silence inside a stream; 0 does not.
	StreamIdleTimeout time.Duration `yaml:"stream_idle_timeout"`
	// KeepaliveInterval is the silence after which a stream gets a comment line; 0 sends none.
	KeepaliveInterval time.Duration `yaml:"keepalive_interval"`
	// PromptBudget is the longest time rendering and tokenising may add to a request; then it is routed by its bytes.
	PromptBudget time.Duration `yaml:"prompt_budget"`
	// Attempts is how many workers one prompt may be sent to.
	Attempts int `yaml:"attempts"`
	// FanoutConcurrency is how many prompts of one request run at once.
	FanoutConcurrency int `yaml:"fanout_concurrency"`
	// SendTokenIDs sends token ids along where a parity probe has proven the worker's way to take them.
	SendTokenIDs bool `yaml:"send_token_ids"`

	// Keys are the callers' keys. Without any, everybody is let in and the client's Authorization reaches the workers.
	Keys []Key `yaml:"keys"`
	// WorkerKey is the workers' own key.
	WorkerKey string `yaml:"worker_key"`
	// CORSOrigins is what browser pages may call from; "*" is everywhere and the default, "none" is nowhere.
	CORSOrigins []string `yaml:"cors_origins"`

	// Aliases maps names that clients use to models' ids.
	Aliases map[string]string `yaml:"aliases"`
	// DefaultModel serves requests that name no model, or one that nobody knows.
	DefaultModel string `yaml:"default_model"`
	// FleetRefresh is how often the list of models is read from the scheduler.
	FleetRefresh time.Duration `yaml:"fleet_refresh"`

	// MaxInflight bounds running requests; 0 does not.
	MaxInflight int `yaml:"max_inflight"`
	// MaxInflightPerWorker bounds a model's running requests to this many per ready worker; 0 does not.
	MaxInflightPerWorker int `yaml:"max_inflight_per_worker"`
	// QueueLimit bounds waiting requests; a negative one lets nobody wait.
	QueueLimit int `yaml:"queue_limit"`
	// QueueTimeout bounds the wait; a negative one does not.
	QueueTimeout time.Duration `yaml:"queue_timeout"`

	// Worker is the HTTP client for workers.
	Worker WorkerConfig `yaml:"worker"`
	// Services says where the other services are; the all-in-one process knows it without.
	Services ServiceAddresses `yaml:"services"`
	// DrainGrace is how long new requests are still served after the gateway has said that it is not ready.
	DrainGrace time.Duration `yaml:"drain_grace"`
	// DrainTimeout bounds the wait for running requests at the end.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// Quiet writes no line per request.
	Quiet bool `yaml:"quiet"`
}

// ServiceAddresses are gRPC addresses (mem://, unix://, tcp://) of the services behind the gateway.
type ServiceAddresses struct {
	Template  string           `yaml:"template"`
	Tokenizer string           `yaml:"tokenizer"`
	Scheduler string           `yaml:"scheduler"`
	Client    rpc.ClientConfig `yaml:"client"`
}

// Key is a caller's key.
type Key = admit.Key

// WorkerConfig limits connections to workers. There is no cap on how many are open.
type WorkerConfig struct {
	// ConnectTimeout bounds dialling.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// IdleTimeout is how long an unused connection is kept. vLLM closes its own after 5 s.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MaxIdle is how many unused connections are kept per worker.
	MaxIdle int `yaml:"max_idle"`
}

// SetDefaults fills in what is empty. Every default is stated here alone.
func (c *Config) SetDefaults() {
	fill(&c.Address, "127.0.0.1:8080")
	fill(&c.MaxBodyBytes, 32<<20)
	fill(&c.MaxDepth, 1000)
	fill(&c.MaxEventBytes, 32<<20)
	fill(&c.PlainBufferBytes, 4<<20)
	fill(&c.PromptBudget, 500*time.Millisecond)
	fill(&c.Attempts, 3)
	fill(&c.FanoutConcurrency, 32)
	if c.CORSOrigins == nil {
		c.CORSOrigins = []string{"*"}
	}
	fill(&c.FleetRefresh, 500*time.Millisecond)
	fill(&c.QueueLimit, 1024)
	fill(&c.QueueTimeout, 30*time.Second)
	fill(&c.Worker.ConnectTimeout, 2*time.Second)
	fill(&c.Worker.IdleTimeout, 4*time.Second)
	fill(&c.Worker.MaxIdle, 1024)
	fill(&c.DrainTimeout, 30*time.Second)
	fill(&c.Services.Template, "tcp://127.0.0.1:8181")
	fill(&c.Services.Tokenizer, "tcp://127.0.0.1:8281")
	fill(&c.Services.Scheduler, "tcp://127.0.0.1:8381")
	c.Services.Client.SetDefaults()
}

// fill sets a default where the file says nothing.
func fill[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Validate reports every fault at once, each with its path in the section.
func (c *Config) Validate() error {
	var errs []error
	bad := func(path, format string, a ...any) { errs = append(errs, fmt.Errorf(path+": "+format, a...)) }
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		bad("address", "must be host:port")
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		bad("tls_cert", "must be given together with tls_key")
	}
	atLeast := func(path string, v, least int64) {
		if v < least {
			bad(path, "must be at least %d", least)
		}
	}
	atLeast("max_body_bytes", c.MaxBodyBytes, 1)
	atLeast("max_depth", int64(c.MaxDepth), 1)
	atLeast("max_choices", int64(c.MaxChoices), 0)
	atLeast("max_event_bytes", int64(c.MaxEventBytes), 1024)
	atLeast("plain_buffer_bytes", int64(c.PlainBufferBytes), 4096)
	atLeast("attempts", int64(c.Attempts), 1)
	atLeast("fanout_concurrency", int64(c.FanoutConcurrency), 1)
	atLeast("max_inflight", int64(c.MaxInflight), 0)
	atLeast("max_inflight_per_worker", int64(c.MaxInflightPerWorker), 0)
	atLeast("worker.max_idle", int64(c.Worker.MaxIdle), 0)
	positive := map[string]time.Duration{
		"prompt_budget": c.PromptBudget, "fleet_refresh": c.FleetRefresh, "worker.connect_timeout": c.Worker.ConnectTimeout,
		"worker.idle_timeout": c.Worker.IdleTimeout, "drain_timeout": c.DrainTimeout,
	}
	for path, d := range positive {
		if d <= 0 {
			bad(path, "must be longer than 0")
		}
	}
	for i, k := range c.Keys {
		if (k.Key == "") == (k.SHA256 == "") {
			bad(fmt.Sprintf("keys[%d]", i), "needs either key or sha256")
		}
	}
	return errors.Join(errs...)
}
