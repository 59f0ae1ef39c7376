// Package route makes the decisions: which targets may take a request, what each of them holds, where it goes, and what is
// booked until it ends.
//
// A decision walks the index without a lock. Loads are read, ranked and booked under one lock, so that every decision sees
// the ones before it; that part takes microseconds.
package route

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/admit"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/fleet"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/ledger"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/receipt"
)

// Config of an engine.
type Config struct {
	MaxUnits        int           // unit hashes looked at per request
	MaxCandidates   int           // candidates kept in a receipt
	SessionCapacity int           // sessions remembered
	NoWorkerRetry   time.Duration // advice when every worker is away
	QueueSlack      time.Duration // a request is refused when its predicted wait leaves less than this of its deadline
	Seed            uint64        // 0 draws one
	KeepUnits       bool          // Booked.Units is wanted
}

// Parts are what an engine works on.
type Parts struct {
	Index    *index.Index
	Fleet    *fleet.Fleet
	Policy   policy.Policy
	Ledger   *ledger.Ledger[*Booked]
	Queue    *admit.Queue
	Receipts *receipt.Store
	Now      func() time.Time
	Observe  Observer
}

// Observer is told what happened; its methods are called outside all locks and must be quick.
type Observer interface {
	// Decided is called once per route, with what was chosen or why nothing was.
	Decided(Decision)
	// Settled is called once per reservation.
	Settled(*Booked, Ending)
}

// Engine is safe for concurrent use.
type Engine struct {
	cfg      Config
	p        Parts
	seed     uint64
	serial   atomic.Uint64
	sessions *sessions
	outputs  outputs
	scratch  sync.Pool

	decide sync.Mutex // makes decisions see each other
}

// New returns an engine.
func New(cfg Config, p Parts) *Engine {
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	e := &Engine{
		cfg: cfg, p: p, seed: cfg.Seed, sessions: newSessions(cfg.SessionCapacity),
	}
	e.outputs.means = map[string]float64{}
	e.scratch.New = func() any { return &decision{} }
	return e
}

// Forget drops what is remembered of models that nobody serves, so that model names cannot pile up.
func (e *Engine) Forget() {
	pools := e.p.Fleet.View().Pools
	served := func(model string) bool { return pools[model] != nil }
	e.p.Queue.Forget(served)
	e.outputs.forget(served)
}
