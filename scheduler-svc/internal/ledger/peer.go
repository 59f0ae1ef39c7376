package ledger

import (
	"time"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy/load"
)

// peer is another scheduler's share. The ledger's lock guards it.
type peer struct {
	seq   uint64
	heard time.Time
	open  map[uint64]*theirs
}

type theirs struct {
	target Target
	owner  uint64
	ticket load.Ticket
	first  bool
}

// Peer takes a message of another scheduler; the own ones, which the bus brings back, are ignored. It reports whether
// the message joined the one before.
func (l *Ledger[T]) Peer(now time.Time, d *eventv1.InflightDelta) bool {
	if d.GetSchedulerId() == l.self {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.peers[d.GetSchedulerId()]
	if d.GetBye() {
		if p != nil {
			p.endAll(now)
			delete(l.peers, d.GetSchedulerId())
		}
		return true
	}
	if p == nil {
		p = &peer{open: map[uint64]*theirs{}}
		l.peers[d.GetSchedulerId()] = p
		l.greet = true
		l.wake()
	} else if d.GetSeq() <= p.seq {
		return true // a duplicate
	}
	joined := d.GetFull() || d.GetSeq() == p.seq+1
	p.seq, p.heard = d.GetSeq(), now
	if d.GetFull() {
		p.endMissing(now, d.GetChanges())
	}
	for _, c := range d.GetChanges() {
		l.peerChange(now, p, c)
	}
	return joined
}

func (l *Ledger[T]) peerChange(now time.Time, p *peer, c *eventv1.InflightChange) {
	r := p.open[c.GetReservation()]
	switch c.GetPhase() {
	case eventv1.InflightPhase_INFLIGHT_PHASE_RESERVED:
		target := l.lookup(c.GetWorkerId(), c.GetRank())
		if r != nil || target == nil {
			return
		}
		l.alias++
		r = &theirs{target: target, owner: l.alias}
		r.ticket = target.Reserve(now, r.owner, Booking{
			Worker: c.GetWorkerId(), Rank: c.GetRank(), UncachedTokens: int(c.GetUncachedTokens()),
			PromptTokens: int(c.GetKvTokens()), Units: c.GetUnits(),
		})
		p.open[c.GetReservation()] = r
	case eventv1.InflightPhase_INFLIGHT_PHASE_DECODING:
		if r != nil && !r.first {
			r.first = true
			r.target.First(now, r.ticket)
		}
	case eventv1.InflightPhase_INFLIGHT_PHASE_SETTLED:
		if r != nil {
			p.end(now, c.GetReservation())
		}
	}
}

func (p *peer) end(now time.Time, id uint64) {
	r := p.open[id]
	delete(p.open, id)
	r.target.End(now, r.owner, r.ticket, load.Settle{CachedTokens: load.Unknown})
}

func (p *peer) endAll(now time.Time) {
	for id := range p.open {
		p.end(now, id)
	}
}

// endMissing ends what a full state does not contain.
func (p *peer) endMissing(now time.Time, full []*eventv1.InflightChange) {
	there := make(map[uint64]struct{}, len(full))
	for _, c := range full {
		there[c.GetReservation()] = struct{}{}
	}
	for id := range p.open {
		if _, ok := there[id]; !ok {
			p.end(now, id)
		}
	}
}
