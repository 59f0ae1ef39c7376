package bus

import (
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
)

// Gap is why messages may be missing.
type Gap int

// Gaps.
const (
	// GapSlow: the handler fell behind the pending limits and messages were dropped.
	GapSlow Gap = iota
	// GapDisconnected: the connection broke; nothing arrives now.
	GapDisconnected
	// GapReconnected: the connection is back; what was sent meanwhile is lost.
	GapReconnected
)

// String is the gap's name as metrics spell it.
func (g Gap) String() string {
	return [...]string{"slow", "disconnected", "reconnected"}[g]
}

// Handler is what a subscription calls. Calls of one subscription never overlap, so a handler needs no lock of its own
// for what only it touches.
type Handler[M proto.Message] struct {
	// OnMessage gets each message, which is the handler's to keep. Slow work belongs elsewhere: the pending limits
	// count what waits for it.
	OnMessage func(Subject, M)
	// OnGap is told that messages may be missing; nil ignores it.
	OnGap func(Gap)
}

// Subscription is one interest in a subject.
type Subscription struct {
	bus   *Bus
	sub   *nats.Subscription
	onGap func(Gap)

	mu     sync.Mutex // serialises the handler's functions
	closed bool
}

// Subscribe delivers the messages of a subject, or of a pattern of subjects, to a handler, in order per sender, in one
// goroutine that Close ends. Messages that are no M are dropped and counted.
func Subscribe[T any, M interface {
	*T
	proto.Message
}](b *Bus, s Subject, h Handler[M]) (*Subscription, error) {
	out := &Subscription{bus: b, onGap: h.OnGap}
	deliver := func(msg *nats.Msg) {
		var m M = new(T)
		if err := proto.Unmarshal(msg.Data, m); err != nil {
			b.metrics.malformed.WithLabelValues(s.kind()).Inc()
			b.log.Debug("bus message is malformed", "subject", msg.Subject, "bytes", len(msg.Data))
			return
		}
		out.run(func() { h.OnMessage(Subject(msg.Subject), m) })
	}
	b.mu.Lock() // so that an error handler finds the subscription
	defer b.mu.Unlock()
	sub, err := b.nc.Subscribe(string(s), deliver)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", s, err)
	}
	if err := sub.SetPendingLimits(b.cfg.PendingMessages, int(b.cfg.PendingBytes)); err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", s, err)
	}
	out.sub = sub
	b.subs[sub] = out
	return out, nil
}

// run calls f unless the subscription is closed.
func (s *Subscription) run(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		f()
	}
}

// gap waits for a handler that is at work, so OnGap sees the state that the last message left.
func (s *Subscription) gap(g Gap) {
	s.bus.metrics.gaps.WithLabelValues(g.String()).Inc()
	if s.onGap != nil {
		s.run(func() { s.onGap(g) })
	}
}

// Close ends the subscription. Once it has returned, the handler is not called any more; called from inside the handler
// it would wait for itself.
func (s *Subscription) Close() error {
	s.bus.mu.Lock()
	delete(s.bus.subs, s.sub)
	s.bus.mu.Unlock()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if err := s.sub.Unsubscribe(); err != nil && !s.bus.nc.IsClosed() {
		return fmt.Errorf("unsubscribe from %s: %w", s.sub.Subject, err)
	}
	return nil
}

// gapAll tells every subscription.
func (b *Bus) gapAll(g Gap) {
	b.mu.Lock()
	subs := make([]*Subscription, 0, len(b.subs))
	for _, s := range b.subs {
		subs = append(subs, s)
	}
	b.mu.Unlock()
	for _, s := range subs {
		s.gap(g)
	}
}
