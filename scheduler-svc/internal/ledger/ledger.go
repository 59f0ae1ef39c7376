// Package ledger keeps the reservations of this scheduler and of its peers.
//
// A reservation begins with a choice, passes its first token and ends exactly once, on whatever path. Each step is booked on
// its target and told to the other schedulers in batches; theirs are booked on the same targets, so that all decide on the
// load of all. A batch that is lost is mended by the sender's next full state, and the share of a sender that falls silent
// expires.
package ledger

import (
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy/load"
)

// Target is where a reservation is booked. Owner is unique over all schedulers' open reservations of this process.
type Target interface {
	Reserve(now time.Time, owner uint64, b Booking) load.Ticket
	First(now time.Time, t load.Ticket)
	End(now time.Time, owner uint64, t load.Ticket, s load.Settle)
}

// Idler is a Target whose worker tells its own load. Idle is the time over which all its latest reports said that nothing
// runs or waits there; both are zero while something does.
type Idler interface {
	Idle() (since, until time.Time)
}

// idleGrace is how long a worker must have been idle before a reservation from before that time is held for dead: the
// gateway that made it was killed. A living one needs two seconds at most to reach its worker or to give up.
const idleGrace = 3 * time.Second

// dead reports whether the reservation's request cannot be at its worker any more.
func (r *reservation[T]) dead() bool {
	i, ok := r.target.(Idler)
	if !ok {
		return false
	}
	since, until := i.Idle()
	return r.since.Before(since) && until.Sub(since) >= idleGrace
}

// Booking is what a reservation costs its target.
type Booking struct {
	Worker         string
	Rank           uint32
	PromptTokens   int
	UncachedTokens int
	OutputTokens   int     // expected
	AdmitS         float64 // predicted wait for admission
	Units          []uint64
	Keep           bool   // no event will confirm Units
	Gateway        string // who will settle it; empty when it does not say
}

// MaxSharedUnits is how many units of a reservation peers are told.
const MaxSharedUnits = 4096

// Config bounds the ledger.
type Config struct {
	MaxAge     time.Duration // a reservation that was never settled ends then: its owner is gone
	PeerExpiry time.Duration // a peer's share ends when nothing has come for this long
}

// Ledger is safe for concurrent use. Its own reservations are of type T beside their booking: what the owner wants back at
// the settle.
type Ledger[T any] struct {
	cfg    Config
	self   string
	lookup func(worker string, rank uint32) Target // nil for an unknown target

	mu    sync.Mutex
	next  uint64
	open  map[uint64]*reservation[T]
	out   []*eventv1.InflightChange
	seq   uint64
	dirty chan struct{} // capacity 1: something waits in out
	peers map[string]*peer
	greet bool   // a peer is new: it is told everything
	alias uint64 // owners given to peers' reservations

	gateways map[string]time.Time // when a gateway's lease ends
}

// maxGateways bounds the gateways whose leases are kept; those beyond it have none.
const maxGateways = 4096

// Alive is a gateway's sign of life: without another one within the lease, what it booked ends.
func (l *Ledger[T]) Alive(now time.Time, gateway string, lease time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.gateways[gateway]; known || len(l.gateways) < maxGateways {
		l.gateways[gateway] = now.Add(lease)
	}
}

// orphaned reports whether the lease of the reservation's gateway has ended.
func (l *Ledger[T]) orphaned(now time.Time, r *reservation[T]) bool {
	until, known := l.gateways[r.booking.Gateway]
	return known && now.After(until)
}

type reservation[T any] struct {
	target  Target
	ticket  load.Ticket
	booking Booking
	since   time.Time
	first   bool
	value   T
}

// New returns an empty ledger. base keeps reservation numbers of different processes apart; its low half must be 0.
func New[T any](cfg Config, self string, base uint64, lookup func(string, uint32) Target) *Ledger[T] {
	return &Ledger[T]{
		cfg: cfg, self: self, lookup: lookup, next: base, alias: 1 << 63,
		open: map[uint64]*reservation[T]{}, dirty: make(chan struct{}, 1), peers: map[string]*peer{},
		gateways: map[string]time.Time{},
	}
}

// Reserve books on the target and returns the reservation's number, which is never 0.
func (l *Ledger[T]) Reserve(now time.Time, target Target, b Booking, value T) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	id := l.next
	r := &reservation[T]{target: target, booking: b, since: now, value: value}
	r.ticket = target.Reserve(now, id, b)
	l.open[id] = r
	l.tell(reserved(id, b))
	return id
}

// First books the first token. It reports whether the reservation is open and this is its first first token.
func (l *Ledger[T]) First(now time.Time, id uint64) (T, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.open[id]
	if r == nil || r.first {
		var none T
		return none, false
	}
	r.first = true
	r.target.First(now, r.ticket)
	l.tell(&eventv1.InflightChange{Reservation: id, Phase: eventv1.InflightPhase_INFLIGHT_PHASE_DECODING})
	return r.value, true
}

// Settle ends a reservation and returns its value, or false when it has ended before or never was.
func (l *Ledger[T]) Settle(now time.Time, id uint64, s load.Settle) (T, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.open[id]
	if r == nil {
		var none T
		return none, false
	}
	l.end(now, id, r, s)
	return r.value, true
}

func (l *Ledger[T]) end(now time.Time, id uint64, r *reservation[T], s load.Settle) {
	delete(l.open, id)
	r.target.End(now, id, r.ticket, s)
	l.tell(&eventv1.InflightChange{Reservation: id, Phase: eventv1.InflightPhase_INFLIGHT_PHASE_SETTLED})
}

// Expire ends what was never settled, because it is too old, its gateway's lease has ended or its worker has long been
// idle, and the shares of peers that fell silent. It returns the values of the own reservations that it ended.
func (l *Ledger[T]) Expire(now time.Time) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []T
	for id, r := range l.open {
		if now.Sub(r.since) > l.cfg.MaxAge || l.orphaned(now, r) || r.dead() {
			l.end(now, id, r, load.Settle{CachedTokens: load.Unknown})
			out = append(out, r.value)
		}
	}
	for name, until := range l.gateways {
		if now.After(until) {
			delete(l.gateways, name)
		}
	}
	for name, p := range l.peers {
		if now.Sub(p.heard) > l.cfg.PeerExpiry {
			p.endAll(now)
			delete(l.peers, name)
		}
	}
	return out
}

// Open is the number of own open reservations.
func (l *Ledger[T]) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Peers returns the number of peers and of their open reservations.
func (l *Ledger[T]) Peers() (peers, reservations int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.peers {
		reservations += len(p.open)
	}
	return len(l.peers), reservations
}

func reserved(id uint64, b Booking) *eventv1.InflightChange {
	return &eventv1.InflightChange{
		Reservation: id, Phase: eventv1.InflightPhase_INFLIGHT_PHASE_RESERVED,
		WorkerId: b.Worker, Rank: b.Rank,
		UncachedTokens: uint32(b.UncachedTokens), KvTokens: uint32(b.PromptTokens + b.OutputTokens),
		Units: b.Units[:min(len(b.Units), MaxSharedUnits)],
	}
}
