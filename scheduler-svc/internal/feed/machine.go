package feed

import (
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
)

// Machine is the rules over all streams. It is safe for concurrent use; its lock makes it the one writer of its
// streams.
type Machine struct {
	limits Limits
	hooks  Hooks
	index  *index.Index

	mu      sync.Mutex
	streams map[Key]*stream
	order   []*stream // in order of opening, so that equal inputs give equal runs
	attempt uint64
}

// New returns a machine over an index that nobody else writes.
func New(x *index.Index, limits Limits, hooks Hooks) *Machine {
	return &Machine{limits: limits, hooks: hooks, index: x, streams: map[Key]*stream{}}
}

// Open starts to follow a stream and asks for its snapshot. An open stream only gets the new address. It returns nil when
// the index has no room for another stream.
func (m *Machine) Open(now time.Time, key Key, address string) *Stream {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.streams[key]; s != nil {
		s.address = address
		return &s.Stream
	}
	holder := m.index.Open()
	if holder == nil {
		return nil
	}
	s := &stream{machine: m, address: address}
	s.key, s.holder = key, holder
	m.streams[key] = s
	m.order = append(m.order, s)
	s.mend(now, CauseStart)
	return &s.Stream
}

// Close drops a stream: its worker is gone.
func (m *Machine) Close(key Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.streams[key]
	if s == nil {
		return
	}
	delete(m.streams, key)
	for i, o := range m.order {
		if o == s {
			m.order = append(m.order[:i], m.order[i+1:]...)
			break
		}
	}
	s.attempt = 0 // the load of a running ask is aborted when it answers
	s.holder.Close()
}

// Delta takes a message from the bus. The message is the machine's from then on.
func (m *Machine) Delta(now time.Time, d *eventv1.KvDelta) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.streams[Key{d.GetWorkerId(), d.GetRank()}]
	if s == nil {
		m.hooks.Counts.Strangers.Add(1)
		return
	}
	s.delta(now, d)
}

// Snapshot takes the answer to an ask.
func (m *Machine) Snapshot(now time.Time, ask Ask, answer Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.streams[ask.Key]
	if s == nil || s.attempt != ask.Attempt {
		ask.Load.Abort()
		return
	}
	s.snapshot(now, ask, answer)
}

// Disturb mends every stream: the bus was away or dropped messages, and it is not known whose.
func (m *Machine) Disturb(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.order {
		s.mend(now, CauseBus)
	}
}

// Tick asks again where a snapshot is due. Call it several times per RetryMin.
func (m *Machine) Tick(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.order {
		s.tick(now)
	}
}

func (m *Machine) nextAttempt() uint64 {
	m.attempt++
	return m.attempt
}
