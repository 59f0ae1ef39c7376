package schedulersvc

import (
	"slices"
	"strings"
	"time"

	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/rpc"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

// Config is the section "scheduler" of a deployment's file.
type Config struct {
	// Name is this scheduler's name on the bus; a random part is added, so that two may share it.
	Name string `yaml:"name" doc:"name of this scheduler on the bus"`
	// Policy is the name of the policy.
	Policy string `yaml:"policy" doc:"policy that ranks workers"`
	// PolicyOptions are parameters by name; what is not there has the published value. See docs/policies.md.
	PolicyOptions map[string]float64 `yaml:"policy_options" doc:"parameters of the policy by name, see policies.md; published values where not given"`
	// Seed of random choices; 0 draws one.
	Seed uint64 `yaml:"seed" doc:"seed of random choices; 0 draws one"`
	// Index bounds the block index.
	Index IndexConfig `yaml:"index" doc:"bounds of the block index"`
	// Feed is how events are followed.
	Feed FeedConfig `yaml:"feed" doc:"how the workers' events are followed"`
	// Worker is what a worker is trusted with.
	Worker WorkerConfig `yaml:"worker" doc:"load and failures of a worker"`
	// Queue holds requests while all workers are full.
	Queue QueueConfig `yaml:"queue" doc:"the queue while all workers are full"`
	// Peers is how load is shared between schedulers.
	Peers PeerConfig `yaml:"peers" doc:"sharing of load between schedulers"`
	// Receipts are the decisions that are kept.
	Receipts ReceiptConfig `yaml:"receipts" doc:"decisions that are kept"`
	// Sessions is how many sessions' homes are remembered.
	Sessions int `yaml:"sessions" doc:"sessions whose worker is remembered"`
	// MaxPromptUnits is how many units of a prompt are looked up.
	MaxPromptUnits int `yaml:"max_prompt_units" doc:"units of one prompt that are looked up"`
	// NoWorkerRetry is the advice when no worker can take work.
	NoWorkerRetry time.Duration `yaml:"no_worker_retry" doc:"Retry-After when no worker can take work"`
}

// IndexConfig bounds memory.
type IndexConfig struct {
	MaxUnits int        `yaml:"max_units" doc:"units held at once; past it units are given up at random places"`
	MaxSets  conf.Bytes `yaml:"max_sets" doc:"memory for shared sets of five or more holders"`
}

// FeedConfig is how events are followed.
type FeedConfig struct {
	BufferUnits     int              `yaml:"buffer_units" doc:"units buffered per stream while its snapshot is on the way"`
	RetryMin        time.Duration    `yaml:"retry_min" doc:"first wait after a failed snapshot"`
	RetryMax        time.Duration    `yaml:"retry_max" doc:"longest wait after a failed snapshot"`
	SnapshotTimeout time.Duration    `yaml:"snapshot_timeout" doc:"longest time of one snapshot"`
	Parallel        int              `yaml:"parallel" doc:"snapshots fetched at once"`
	LateAfter       time.Duration    `yaml:"late_after" doc:"silence after which a worker's events count as late"`
	Adapter         rpc.ClientConfig `yaml:"adapter" doc:"connections to adapters"`
}

// WorkerConfig is what a worker is trusted with.
type WorkerConfig struct {
	MaxWorkers      int           `yaml:"max_workers" doc:"workers known at once"`
	MaxInflight     int           `yaml:"max_inflight" doc:"requests in flight per rank, 0 is 1.5 times its sequences; more wait here (x-kvmesh-queued-ms, queue_waiting)"`
	BusyHold        time.Duration `yaml:"busy_hold" doc:"time without requests after a worker said 429"`
	ExpectTTL       time.Duration `yaml:"expect_ttl" doc:"longest time that unconfirmed units are expected"`
	BreakerFailures int           `yaml:"breaker_failures" doc:"failures in a row that open a worker's breaker"`
	BreakerOpenMin  time.Duration `yaml:"breaker_open_min" doc:"first time that a breaker stays open"`
	BreakerOpenMax  time.Duration `yaml:"breaker_open_max" doc:"longest time that a breaker stays open"`
}

// QueueConfig bounds the queue.
type QueueConfig struct {
	MaxWaiting int           `yaml:"max_waiting" doc:"requests that may wait; more are refused with 429"`
	MaxTenants int           `yaml:"max_tenants" doc:"tenants whose use is counted"`
	Quantum    int           `yaml:"quantum_tokens" doc:"tokens by which a tenant may be ahead of the least served one and still go first for its cached prefix"`
	Slack      time.Duration `yaml:"slack" doc:"a request is refused at once if its predicted wait exceeds its deadline by this"`
}

// PeerConfig is the sharing of load.
type PeerConfig struct {
	Batch      time.Duration `yaml:"batch" doc:"longest time that a change of load waits for others"`
	Full       time.Duration `yaml:"full" doc:"interval of whole states"`
	Expiry     time.Duration `yaml:"expiry" doc:"silence after which a scheduler's load expires"`
	MaxRequest time.Duration `yaml:"max_request" doc:"age at which a reservation that was never settled ends"`
}

// ReceiptConfig bounds what is kept.
type ReceiptConfig struct {
	MaxRecords    int        `yaml:"max_records" doc:"decisions kept"`
	MaxBytes      conf.Bytes `yaml:"max_bytes" doc:"memory for decisions"`
	MaxCandidates int        `yaml:"max_candidates" doc:"candidates kept of one decision, best first"`
	Sink          string     `yaml:"sink" doc:"file that gets one line of JSON per settled request; empty for none"`
	SinkMaxBytes  conf.Bytes `yaml:"sink_max_bytes" doc:"size at which the sink file is moved to .1"`
	// Requests is the log that `kvmesh sim --trace` replays.
	Requests         string     `yaml:"requests" doc:"file that gets time, lengths and hashes of answered requests, for kvmesh sim --trace; empty for none"`
	RequestsMaxBytes conf.Bytes `yaml:"requests_max_bytes" doc:"size at which that file is moved to .1"`
}

// SetDefaults fills what is zero.
func (c *Config) SetDefaults() {
	conf.Default(&c.Name, "scheduler")
	conf.Default(&c.Policy, policy.Default)
	conf.Default(&c.Index.MaxUnits, 16<<20)
	conf.Default(&c.Index.MaxSets, 256*conf.MiB)
	conf.Default(&c.Feed.BufferUnits, 1<<20)
	conf.Default(&c.Feed.RetryMin, 50*time.Millisecond)
	conf.Default(&c.Feed.RetryMax, time.Second)
	conf.Default(&c.Feed.SnapshotTimeout, 10*time.Second)
	conf.Default(&c.Feed.Parallel, 32)
	conf.Default(&c.Feed.LateAfter, 5*time.Second)
	c.Feed.Adapter.SetDefaults()
	conf.Default(&c.Worker.MaxWorkers, 4096)
	conf.Default(&c.Worker.BusyHold, 200*time.Millisecond)
	conf.Default(&c.Worker.ExpectTTL, 5*time.Minute)
	conf.Default(&c.Worker.BreakerFailures, 3)
	conf.Default(&c.Worker.BreakerOpenMin, time.Second)
	conf.Default(&c.Worker.BreakerOpenMax, 30*time.Second)
	conf.Default(&c.Queue.MaxWaiting, 1024)
	conf.Default(&c.Queue.MaxTenants, 10_000)
	conf.Default(&c.Queue.Quantum, 65_536)
	conf.Default(&c.Queue.Slack, time.Second)
	conf.Default(&c.Peers.Batch, 2*time.Millisecond)
	conf.Default(&c.Peers.Full, 2*time.Second)
	conf.Default(&c.Peers.Expiry, 10*time.Second)
	conf.Default(&c.Peers.MaxRequest, 30*time.Minute)
	conf.Default(&c.Receipts.MaxRecords, 10_000)
	conf.Default(&c.Receipts.MaxBytes, 64*conf.MiB)
	conf.Default(&c.Receipts.MaxCandidates, 32)
	conf.Default(&c.Receipts.SinkMaxBytes, 256*conf.MiB)
	conf.Default(&c.Receipts.RequestsMaxBytes, 1024*conf.MiB)
	conf.Default(&c.Sessions, 65536)
	conf.Default(&c.MaxPromptUnits, 1<<16)
	conf.Default(&c.NoWorkerRetry, 2*time.Second)
}

// Validate reports every fault at once, each with its path.
func (c *Config) Validate() error {
	var f conf.Faults
	f.Require(slices.Contains(policy.Names(), c.Policy), "policy",
		"%q is unknown, want one of %s", c.Policy, strings.Join(policy.Names(), ", "))
	options := policy.DefaultOptions()
	f.Under("policy_options", options.Override(c.PolicyOptions))
	c.validateCounts(&f)
	c.validateTimes(&f)
	f.Under("feed.adapter", c.Feed.Adapter.Validate())
	return f.Err()
}

func (c *Config) validateCounts(f *conf.Faults) {
	for _, n := range []struct {
		path  string
		value int
		least int
	}{
		{"index.max_units", c.Index.MaxUnits, 1},
		{"index.max_sets", int(c.Index.MaxSets), 1},
		{"feed.buffer_units", c.Feed.BufferUnits, 1},
		{"feed.parallel", c.Feed.Parallel, 1},
		{"worker.max_workers", c.Worker.MaxWorkers, 1},
		{"worker.max_inflight", c.Worker.MaxInflight, 0},
		{"worker.breaker_failures", c.Worker.BreakerFailures, 1},
		{"queue.max_waiting", c.Queue.MaxWaiting, 0},
		{"queue.max_tenants", c.Queue.MaxTenants, 1},
		{"queue.quantum_tokens", c.Queue.Quantum, 0},
		{"receipts.max_records", c.Receipts.MaxRecords, 0},
		{"receipts.max_bytes", int(c.Receipts.MaxBytes), 0},
		{"receipts.max_candidates", c.Receipts.MaxCandidates, 1},
		{"sessions", c.Sessions, 1},
		{"max_prompt_units", c.MaxPromptUnits, 1},
	} {
		f.Require(n.value >= n.least, n.path, "must be at least %d", n.least)
	}
}

func (c *Config) validateTimes(f *conf.Faults) {
	for _, d := range []struct {
		path  string
		value time.Duration
	}{
		{"feed.retry_min", c.Feed.RetryMin},
		{"feed.retry_max", c.Feed.RetryMax},
		{"feed.snapshot_timeout", c.Feed.SnapshotTimeout},
		{"feed.late_after", c.Feed.LateAfter},
		{"worker.busy_hold", c.Worker.BusyHold},
		{"worker.expect_ttl", c.Worker.ExpectTTL},
		{"worker.breaker_open_min", c.Worker.BreakerOpenMin},
		{"worker.breaker_open_max", c.Worker.BreakerOpenMax},
		{"peers.batch", c.Peers.Batch},
		{"peers.full", c.Peers.Full},
		{"peers.expiry", c.Peers.Expiry},
		{"peers.max_request", c.Peers.MaxRequest},
		{"no_worker_retry", c.NoWorkerRetry},
	} {
		f.Require(d.value > 0, d.path, "must be positive")
	}
	f.Require(c.Feed.RetryMax >= c.Feed.RetryMin, "feed.retry_max", "must not be less than feed.retry_min")
	f.Require(c.Peers.Expiry > c.Peers.Full, "peers.expiry", "must be more than peers.full")
	f.Require(c.Queue.Slack >= 0, "queue.slack", "must not be negative")
}
