package ledger

import (
	"slices"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
)

// maxBatch bounds the changes of one message: with the units of a reservation a change is at most 32 KiB, mostly 1 KiB.
const maxBatch = 256

// tell queues a change for the peers. A scheduler that is alone tells nobody: one that it hears of later gets the whole
// state first. The lock is held.
func (l *Ledger[T]) tell(c *eventv1.InflightChange) {
	if len(l.peers) == 0 {
		return
	}
	l.out = append(l.out, c)
	l.wake()
}

// wake says that Take has a message.
func (l *Ledger[T]) wake() {
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

// Dirty receives when changes wait for Take.
func (l *Ledger[T]) Dirty() <-chan struct{} { return l.dirty }

// Take returns the next message for the peers, or nil when nothing waits.
func (l *Ledger[T]) Take() *eventv1.InflightDelta {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.greet {
		l.greet = false
		return l.full(true)
	}
	if len(l.out) == 0 {
		l.out = nil
		return nil
	}
	n := min(maxBatch, len(l.out))
	changes := l.out[:n:n]
	l.out = l.out[n:]
	return l.message(changes)
}

// Full returns the whole of the open reservations and drops what waits, which it contains. Units are left out: what was
// expected of old reservations is confirmed or told already.
func (l *Ledger[T]) Full() *eventv1.InflightDelta {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full(false)
}

// greetUnits bounds the units of a message for a newcomer: 256 KiB.
const greetUnits = 1 << 15

// full is the whole state; a newcomer has not been told the units. The lock is held.
func (l *Ledger[T]) full(newcomer bool) *eventv1.InflightDelta {
	l.out = nil
	room := 0
	if newcomer {
		room = greetUnits
	}
	ids := make([]uint64, 0, len(l.open))
	for id := range l.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	changes := make([]*eventv1.InflightChange, 0, 2*len(ids))
	for _, id := range ids {
		r := l.open[id]
		b := r.booking
		if room -= min(len(b.Units), MaxSharedUnits); room < 0 {
			b.Units = nil
		}
		changes = append(changes, reserved(id, b))
		if r.first {
			changes = append(changes, &eventv1.InflightChange{
				Reservation: id, Phase: eventv1.InflightPhase_INFLIGHT_PHASE_DECODING,
			})
		}
	}
	d := l.message(changes)
	d.Full = true
	return d
}

// Bye returns the message with which this scheduler leaves.
func (l *Ledger[T]) Bye() *eventv1.InflightDelta {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.message(nil)
	d.Bye = true
	return d
}

func (l *Ledger[T]) message(changes []*eventv1.InflightChange) *eventv1.InflightDelta {
	l.seq++
	return &eventv1.InflightDelta{SchedulerId: l.self, Seq: l.seq, Changes: changes}
}
