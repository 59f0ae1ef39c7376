// Package schedulersvc is the service that chooses workers.
//
// It follows the registry and every worker's KV events, keeps the index of who holds which block, the load in flight and
// the receipts, and ranks workers by a policy. It knows hashes and counts, never text or tokens.
package schedulersvc

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/rpc"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/admit"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/breaker"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/feed"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/fleet"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/ledger"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/receipt"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/route"
)

// Deps is what the service is given; the giver closes it.
type Deps struct {
	Log        *slog.Logger
	Registerer prometheus.Registerer
	Bus        *bus.Bus
	// Network finds mem:// adapters; nil where there are none.
	Network *rpc.Network
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Service implements kvmesh.scheduler.v1.SchedulerService.
type Service struct {
	schedulerv1.UnimplementedSchedulerServiceServer
	cfg  Config
	deps Deps
	id   string // on the bus, unique per process start

	index    *index.Index
	counts   feed.Counts
	machine  *feed.Machine
	fetcher  *feed.Fetcher
	fleet    *fleet.Fleet
	ledger   *ledger.Ledger[*route.Booked]
	queue    *admit.Queue
	receipts *receipt.Store
	sink     *receipt.Sink[*receipt.Record]
	requests *receipt.Sink[receipt.Request]
	engine   *route.Engine
	meter    *meter

	synced atomic.Bool     // the registry has been read once
	life   context.Context // of Run; asks for snapshots begin there
}

// New makes the service; Run connects it.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("scheduler config: %w", err)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	options := policy.DefaultOptions()
	if err := options.Override(cfg.PolicyOptions); err != nil {
		return nil, fmt.Errorf("policy options: %w", err)
	}
	ranker, err := policy.New(cfg.Policy, options)
	if err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, deps: deps, id: fmt.Sprintf("%s-%08x", cfg.Name, rand.Uint32())}
	s.index = index.New(index.Config{MaxUnits: cfg.Index.MaxUnits, MaxSetBytes: int64(cfg.Index.MaxSets)})
	s.machine = feed.New(s.index, s.limits(), feed.Hooks{
		Ask: s.ask, Changed: s.changed, Mend: s.mended, Counts: &s.counts,
	})
	s.fetcher = feed.NewFetcher(feed.FetchConfig{
		Dial: s.dial, Log: deps.Log, Now: deps.Now, Timeout: cfg.Feed.SnapshotTimeout, Parallel: cfg.Feed.Parallel,
	})
	now := deps.Now()
	s.fleet = fleet.New(s.fleetConfig(), s.machine, now)
	s.ledger = ledger.New[*route.Booked](ledger.Config{
		MaxAge: cfg.Peers.MaxRequest, PeerExpiry: cfg.Peers.Expiry,
	}, s.id, uint64(rand.Uint32()>>1)<<32, s.target)
	s.queue = admit.New(admit.Config{
		MaxWaiting: cfg.Queue.MaxWaiting, MaxTenants: cfg.Queue.MaxTenants, QuantumTokens: cfg.Queue.Quantum,
	}, now)
	s.receipts = receipt.NewStore(receipt.Limits{
		MaxRecords: cfg.Receipts.MaxRecords, MaxBytes: int64(cfg.Receipts.MaxBytes),
	})
	s.openSinks()
	s.meter = newMeter(s)
	s.engine = route.New(route.Config{
		MaxUnits: cfg.MaxPromptUnits, MaxCandidates: cfg.Receipts.MaxCandidates, SessionCapacity: cfg.Sessions,
		NoWorkerRetry: cfg.NoWorkerRetry, QueueSlack: cfg.Queue.Slack, Seed: cfg.Seed,
		KeepUnits: s.requests != nil,
	}, route.Parts{
		Index: s.index, Fleet: s.fleet, Policy: ranker, Ledger: s.ledger, Queue: s.queue, Receipts: s.receipts,
		Now: deps.Now, Observe: s.meter,
	})
	if err := s.meter.register(deps.Registerer); err != nil {
		return nil, err
	}
	return s, nil
}

// openSinks makes the files' writers; Run opens the files.
func (s *Service) openSinks() {
	r := s.cfg.Receipts
	s.sink = receipt.NewSink(receipt.SinkConfig{Path: r.Sink, MaxBytes: int64(r.SinkMaxBytes), What: "receipts"},
		s.receipts.JSON, s.deps.Log)
	s.requests = receipt.NewSink(
		receipt.SinkConfig{Path: r.Requests, MaxBytes: int64(r.RequestsMaxBytes), What: "requests"},
		func(r receipt.Request) ([]byte, error) { return r.JSON() }, s.deps.Log)
}

func (s *Service) limits() feed.Limits {
	f := s.cfg.Feed
	return feed.Limits{
		BufferUnits: f.BufferUnits, RetryMin: f.RetryMin, RetryMax: f.RetryMax,
		AskTimeout: f.SnapshotTimeout + 2*time.Second, SilentAfter: f.LateAfter,
	}
}

func (s *Service) fleetConfig() fleet.Config {
	w := s.cfg.Worker
	return fleet.Config{
		Breaker:   breaker.Config{Failures: w.BreakerFailures, OpenMin: w.BreakerOpenMin, OpenMax: w.BreakerOpenMax},
		LateAfter: s.cfg.Feed.LateAfter, MaxInflight: w.MaxInflight, BusyHold: w.BusyHold,
		ExpectTTL: w.ExpectTTL, MaxWorkers: w.MaxWorkers,
	}
}

// Register adds the service to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) { schedulerv1.RegisterSchedulerServiceServer(r, s) }

// Ready is nil once the registry has been read. Decisions are DEGRADED, not refused, until the snapshots are there.
func (s *Service) Ready(ctx context.Context) error {
	if s.synced.Load() {
		return nil
	}
	if err := s.deps.Bus.Ready(ctx); err != nil {
		return err
	}
	return fmt.Errorf("the worker registry has not been read yet")
}

func (s *Service) target(worker string, rank uint32) ledger.Target {
	if t := s.fleet.View().Target(worker, rank); t != nil {
		return t
	}
	return nil
}

func (s *Service) dial(address string) (feed.Conn, error) {
	return rpc.Dial(address, s.cfg.Feed.Adapter, rpc.ClientDeps{Network: s.deps.Network, Log: s.deps.Log})
}

// ask is called with the machine's lock held.
func (s *Service) ask(a feed.Ask) { s.fetcher.Fetch(s.life, a, s.machine) }

// changed is called with the machine's lock held.
func (s *Service) changed(key feed.Key) {
	if t := s.fleet.View().Target(key.Worker, key.Rank); t != nil && t.Stream != nil {
		t.Expect.Confirm(t.Stream.Holds)
	}
}

// mended is called with the machine's lock held.
func (s *Service) mended(key feed.Key, cause feed.Cause) {
	level := slog.LevelInfo
	if cause == feed.CauseAudit {
		level = slog.LevelError
	}
	s.deps.Log.Log(context.Background(), level, "asking for a snapshot of a worker's units",
		"worker", key.Worker, "rank", key.Rank, "cause", cause.String())
}
