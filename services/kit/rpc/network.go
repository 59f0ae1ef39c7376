package rpc

import (
	"context"
	"sync"
	"time"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/deadline"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// Network holds the mem:// names of one process. Servers and clients that are to meet get the same one. It is safe for
// concurrent use.
type Network struct {
	mu    sync.Mutex
	slots map[string]*slot // slots are never removed: one per configured name
}

// NewNetwork makes an empty network.
func NewNetwork() *Network { return &Network{slots: map[string]*slot{}} }

// slot returns the place of a name, whether or not anything serves there yet.
func (n *Network) slot(name string) *slot {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.slots[name]
	if s == nil {
		s = &slot{name: name, arrived: make(chan struct{})}
		n.slots[name] = s
	}
	return s
}

// slot is a name that a server takes and leaves, perhaps several times.
type slot struct {
	name string

	mu      sync.Mutex
	current *endpoint
	served  bool          // some server has been here
	arrived chan struct{} // closed while current is set
}

// take puts a server on the name. It fails while another server is there.
func (s *slot) take(e *endpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return fault.New(faultv1.Reason_REASON_UNAVAILABLE, "the address mem://%s is taken by another server", s.name)
	}
	s.current, s.served = e, true
	close(s.arrived)
	return nil
}

// leave takes the server off the name, if it is still there.
func (s *slot) leave(e *endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == e {
		s.current, s.arrived = nil, make(chan struct{})
	}
}

// endpoint returns the server on the name. A name that nobody has served yet is a process that is still starting: the
// call waits, as it does while gRPC connects, until due if that is set. A name whose server has left is UNAVAILABLE unless
// wait is set.
func (s *slot) endpoint(ctx context.Context, wait bool, due time.Time) (*endpoint, error) {
	for {
		s.mu.Lock()
		e, arrived, served := s.current, s.arrived, s.served
		s.mu.Unlock()
		if e != nil {
			return e, nil
		}
		if served && !wait {
			return nil, fault.New(faultv1.Reason_REASON_UNAVAILABLE, "no server at mem://%s", s.name)
		}
		if err := await(ctx, arrived, due); err != nil {
			return nil, fault.From(err)
		}
	}
}

// await waits until arrived is closed; the error is the context's or that of due.
func await(ctx context.Context, arrived <-chan struct{}, due time.Time) error {
	var bounded deadline.Context
	bounded.Start(ctx, due)
	defer bounded.End()
	select {
	case <-arrived:
		return nil
	case <-bounded.Done():
		return bounded.Err()
	}
}
