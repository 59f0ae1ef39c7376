package workeradapter

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/kvmesh/kvmesh/services/kit/conf"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq"
)

// How the events of a worker are reached.
const (
	// EventsAuto asks the worker (GET /kv_event_sources) and falls back on the configured endpoint.
	EventsAuto = "auto"
	// EventsConnect connects to the configured endpoint.
	EventsConnect = "connect"
	// EventsBind listens at the configured endpoint, for a worker whose publisher connects.
	EventsBind = "bind"
	// EventsOff takes no events: the worker is routed by load alone.
	EventsOff = "off"
)

// Rules for removals.
const (
	copiesEach = "each"
	copiesLast = "last"
)

// Config describes one worker. One adapter serves one vLLM process; several adapters fit on one host or in one process.
type Config struct {
	// ID is unique in the fleet, of [A-Za-z0-9_-]. Empty: host and port of URL.
	ID string `yaml:"id" doc:"unique in the fleet, of [A-Za-z0-9_-]; empty: host and port of url"`
	// URL is the base address of vLLM's HTTP server as this adapter reaches it.
	URL string `yaml:"url" doc:"base address of vLLM's HTTP server as the adapter reaches it"`
	// PublicURL is that address as the gateway reaches it. Empty: URL.
	PublicURL string `yaml:"public_url" doc:"the same as the gateway reaches it; empty: url"`
	// APIKey is the worker's key, empty for none.
	APIKey string `yaml:"api_key" doc:"the worker's API key" redact:"true"`
	// Advertise is this adapter's gRPC address as schedulers reach it.
	Advertise string `yaml:"advertise" doc:"this adapter's gRPC address as schedulers reach it"`
	// Events says how KV events are reached.
	Events Events `yaml:"events" doc:"how KV events are reached"`
	// Copies is "each" when the worker announces the removal of every copy of a block (vLLM up to 0.32), "last" when
	// it announces that of the last one only.
	Copies string `yaml:"copies" doc:"each or last: which removals of copies the worker announces"`
	// PollBusy and PollIdle are the pauses between two reads of the worker's load.
	PollBusy time.Duration `yaml:"poll_busy" doc:"pause between two reads of the load of a busy worker"`
	PollIdle time.Duration `yaml:"poll_idle" doc:"pause between two reads of the load of an idle worker"`
	// DrainTimeout bounds the wait for running requests at shutdown.
	DrainTimeout time.Duration `yaml:"drain_timeout" doc:"longest wait for running requests at shutdown"`
	// Parity says when kvmesh's prompts are compared with the worker's own.
	Parity Parity `yaml:"parity" doc:"comparison of kvmesh's prompts with the worker's own"`
}

// Events says how a worker's KV events are reached.
type Events struct {
	// Mode is auto, connect, bind or off.
	Mode string `yaml:"mode" doc:"auto, connect, bind or off"`
	// Endpoint is rank 0's publisher, as tcp://127.0.0.1:5557 or ipc:///path; rank r uses the port plus r.
	Endpoint string `yaml:"endpoint" doc:"publisher of rank 0; rank r uses the port plus r"`
	// ReplayEndpoint is rank 0's replay socket; empty for none.
	ReplayEndpoint string `yaml:"replay_endpoint" doc:"replay socket of rank 0"`
	// Topic is a prefix of the topics to hear; empty hears all.
	Topic string `yaml:"topic" doc:"prefix of the topics to hear"`
	// Ranks is the number of data-parallel ranks where the worker does not tell; 0 takes what its metrics show.
	Ranks int `yaml:"ranks" doc:"data-parallel ranks where the worker does not tell"`
}

// Parity says when prompts are compared.
type Parity struct {
	// Disabled compares nothing.
	Disabled bool `yaml:"disabled" doc:"compare nothing"`
	// Template and Tokenizer are the addresses of the services that make kvmesh's prompts. A host that passes the
	// clients in does not read them.
	Template  string `yaml:"template" doc:"gRPC address of the template service"`
	Tokenizer string `yaml:"tokenizer" doc:"gRPC address of the tokenizer service"`
	// Every is the pause between two comparisons.
	Every time.Duration `yaml:"every" doc:"pause between two comparisons"`
	// TokenIDs is "auto" (send ids where proven) or "off".
	TokenIDs string `yaml:"token_ids" doc:"auto (send ids where proven) or off"`
}

// Default values of Config.
const (
	// defaultAdvertise is the default server address of the adapter's own binary.
	defaultAdvertise = "tcp://127.0.0.1:8081"
	defaultPollBusy  = 250 * time.Millisecond
	defaultPollIdle  = time.Second
	// defaultDrainTimeout is below the ten seconds in which a binary expects its service to end.
	defaultDrainTimeout = 8 * time.Second
	defaultParityEvery  = time.Hour
)

// SetDefaults fills what is zero.
func (c *Config) SetDefaults() {
	c.URL = strings.TrimRight(c.URL, "/")
	conf.Default(&c.ID, idOf(c.URL))
	conf.Default(&c.PublicURL, c.URL)
	conf.Default(&c.Advertise, defaultAdvertise)
	conf.Default(&c.Events.Mode, EventsAuto)
	conf.Default(&c.Copies, copiesEach)
	conf.Default(&c.PollBusy, defaultPollBusy)
	conf.Default(&c.PollIdle, defaultPollIdle)
	conf.Default(&c.DrainTimeout, defaultDrainTimeout)
	conf.Default(&c.Parity.Every, defaultParityEvery)
	conf.Default(&c.Parity.TokenIDs, EventsAuto)
}

// idOf makes a worker id of an address.
func idOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return regexp.MustCompile(`[^A-Za-z0-9_-]+`).ReplaceAllString(u.Host, "-")
}

// maxRanks bounds the data-parallel ranks of a worker.
const maxRanks = 256

// Validate reports every fault with its path.
func (c *Config) Validate() error {
	var f conf.Faults
	u, err := url.Parse(c.URL)
	f.Require(err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https"),
		"url", "%q is no http://host:port", c.URL)
	idOK := regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`).MatchString(c.ID)
	f.Require(idOK, "id", "%q: want letters, digits, _ and -", c.ID)
	f.Require(oneOf(c.Copies, copiesEach, copiesLast), "copies", "%q: want each or last", c.Copies)
	f.Require(oneOf(c.Parity.TokenIDs, EventsAuto, EventsOff),
		"parity.token_ids", "%q: want auto or off", c.Parity.TokenIDs)
	f.Require(c.PollBusy > 0 && c.PollBusy <= time.Second/2,
		"poll_busy", "%s: load is published twice a second", c.PollBusy)
	f.Require(c.PollIdle > 0 && c.PollIdle <= 2*time.Second, "poll_idle", "%s: want at most 2s", c.PollIdle)
	f.Require(c.DrainTimeout > 0, "drain_timeout", "%s: want a time", c.DrainTimeout)
	f.Require(c.Parity.Every >= time.Second, "parity.every", "%s: want at least 1s", c.Parity.Every)
	f.Under("events", c.Events.Validate())
	return f.Err()
}

// Validate reports every fault with its path.
func (e *Events) Validate() error {
	var f conf.Faults
	f.Require(oneOf(e.Mode, EventsAuto, EventsConnect, EventsBind, EventsOff), "mode",
		"%q: want auto, connect, bind or off", e.Mode)
	f.Require(e.Ranks >= 0 && e.Ranks <= maxRanks, "ranks", "%d: want 0 to %d", e.Ranks, maxRanks)
	if e.Mode == EventsConnect || e.Mode == EventsBind || e.Endpoint != "" {
		err := zmq.Check(e.Endpoint)
		f.Require(err == nil, "endpoint", "%v", err)
	}
	if e.ReplayEndpoint != "" {
		err := zmq.Check(e.ReplayEndpoint)
		f.Require(err == nil, "replay_endpoint", "%v", err)
	}
	return f.Err()
}

// oneOf is true when s is among the choices.
func oneOf(s string, choices ...string) bool {
	for _, c := range choices {
		if s == c {
			return true
		}
	}
	return false
}
