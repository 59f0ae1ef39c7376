// Package bus is kvmesh's use of NATS: typed subjects, protobuf messages, and the registry of worker cards.
//
// Core subjects lose messages when a consumer is slow or the connection breaks. The bus says so: a subscription's OnGap
// is called, and its consumer starts again from a snapshot (or recognises by seq that nothing is missing). Whether NATS
// runs in this process or elsewhere is the caller's choice at Connect; nothing after it can tell.
package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

const (
	// reconnectWait is short because a consumer that missed deltas serves stale knowledge until it is back.
	reconnectWait   = 100 * time.Millisecond
	reconnectJitter = 100 * time.Millisecond
	// reconnectBuffer is what may be published while disconnected. Older deltas are worth nothing after a snapshot.
	reconnectBuffer = 1 << 20
	// pingInterval with two outstanding pings finds a dead server in a minute; a closed socket is found at once.
	pingInterval = 20 * time.Second
)

// Deps is what a bus needs from its process.
type Deps struct {
	// Log gets connection changes. Required.
	Log *slog.Logger
	// Registerer gets the bus metrics; nil for none.
	Registerer prometheus.Registerer
	// InProcess is an embedded server to use instead of Config.URL; nil for a server elsewhere.
	InProcess nats.InProcessConnProvider
}

// Bus is a connection to NATS. It is safe for concurrent use.
type Bus struct {
	cfg     Config
	log     *slog.Logger
	nc      *nats.Conn
	js      jetstream.JetStream
	metrics *metrics
	closed  chan struct{} // closed when the connection is, for good

	mu       sync.Mutex
	subs     map[*nats.Subscription]*Subscription
	kv       jetstream.KeyValue // the registry once it was found
	outage   time.Time          // since when disconnected; zero while connected
	since    time.Time          // of the last connect
	restored chan struct{}      // closed and replaced at each (re)connect
}

// Connect starts a connection and returns at once, also when no server answers: it goes on trying, and Ready tells.
// Services can so start in any order. Wrong configuration is an error.
func Connect(_ context.Context, cfg Config, deps Deps) (*Bus, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("bus config: %w", err)
	}
	if cfg.URL == Embedded && deps.InProcess == nil {
		return nil, fmt.Errorf("bus.url is %q, but this process runs no NATS server; name one", Embedded)
	}
	b := &Bus{
		cfg: cfg, log: deps.Log, closed: make(chan struct{}), restored: make(chan struct{}),
		subs: map[*nats.Subscription]*Subscription{}, outage: time.Now(),
	}
	var err error
	if b.metrics, err = newMetrics(deps.Registerer); err != nil {
		return nil, err
	}
	opts := append(b.options(), cfg.security()...)
	if deps.InProcess != nil {
		opts = append(opts, nats.InProcessServer(deps.InProcess))
	}
	if b.nc, err = nats.Connect(cfg.URL, opts...); err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", cfg.redactedURL(), err)
	}
	if b.js, err = jetstream.New(b.nc); err != nil {
		b.nc.Close()
		return nil, fmt.Errorf("connect to JetStream: %w", err)
	}
	if b.nc.IsConnected() {
		b.onConnect(b.nc)
	}
	return b, nil
}

// options never give up: a bus lives as long as its process, and Ready says when it has no server.
func (b *Bus) options() []nats.Option {
	return []nats.Option{
		nats.Name(b.cfg.Name),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		nats.ReconnectBufSize(reconnectBuffer),
		nats.PingInterval(pingInterval),
		nats.ConnectHandler(b.onConnect),
		nats.ReconnectHandler(b.onReconnect),
		nats.DisconnectErrHandler(b.onDisconnect),
		nats.ErrorHandler(b.onError),
		nats.ClosedHandler(func(*nats.Conn) { close(b.closed) }),
	}
}

// onConnect runs in a goroutine of nats, as all handlers do, or in Connect's; seeing one connect twice is harmless.
func (b *Bus) onConnect(*nats.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outage.IsZero() {
		return
	}
	b.outage, b.since = time.Time{}, time.Now()
	close(b.restored)
	b.restored = make(chan struct{})
}

// onReconnect runs after nats has subscribed again, so a consumer that now asks for a snapshot misses nothing after it.
func (b *Bus) onReconnect(nc *nats.Conn) {
	b.onConnect(nc)
	b.log.Info("bus is connected again", "url", nc.ConnectedUrlRedacted())
	b.gapAll(GapReconnected)
}

// onDisconnect also runs for each failed attempt to connect; consumers are told of the first alone.
func (b *Bus) onDisconnect(_ *nats.Conn, err error) {
	b.mu.Lock()
	first := b.outage.IsZero()
	if first {
		b.outage = time.Now()
	}
	b.mu.Unlock()
	if !first {
		return
	}
	if err != nil { // nil when this side closes
		b.log.Warn("bus lost its connection", "err", err)
	}
	b.gapAll(GapDisconnected)
}

// onError gets what has no caller to return to. For a slow consumer nats calls it once per episode, not per message.
func (b *Bus) onError(_ *nats.Conn, sub *nats.Subscription, err error) {
	if sub != nil && errors.Is(err, nats.ErrSlowConsumer) {
		b.mu.Lock()
		s := b.subs[sub]
		b.mu.Unlock()
		if s != nil {
			b.log.Warn("bus consumer is too slow, messages were dropped", "subject", sub.Subject)
			s.gap(GapSlow)
			return
		}
	}
	b.log.Warn("bus error", "err", err)
}

// state returns since when the bus is disconnected (zero: it is connected) and a channel that closes at the next
// connect.
func (b *Bus) state() (time.Time, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outage, b.restored
}

// connectedSince is the time of the last connect; it means nothing during an outage.
func (b *Bus) connectedSince() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.since
}

// Ready is nil while the bus is connected.
func (b *Bus) Ready(context.Context) error {
	if b.nc.IsConnected() {
		return nil
	}
	return fault.New(faultv1.Reason_REASON_UNAVAILABLE, "the bus is not connected to NATS at %s", b.cfg.redactedURL())
}

// Publish hands a message to the connection, which sends it within a moment; Flush waits for that. While disconnected a
// little is kept; beyond it Publish is UNAVAILABLE. A message beyond the server's limit (1 MiB by default) is
// TOO_LARGE.
func (b *Bus) Publish(ctx context.Context, s Subject, m proto.Message) error {
	if err := ctx.Err(); err != nil {
		return fault.From(err)
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("marshal %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	switch err := b.nc.Publish(string(s), raw); {
	case err == nil:
		b.metrics.published.WithLabelValues(s.kind()).Inc()
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return fault.Wrap(faultv1.Reason_REASON_TOO_LARGE, err,
			"a message of %d bytes is too large for the bus", len(raw))
	default:
		return fault.Wrap(faultv1.Reason_REASON_UNAVAILABLE, err, "the bus takes no messages now")
	}
}

// Flush returns when the server has everything published so far. Without a deadline in ctx it waits 10 s at most.
func (b *Bus) Flush(ctx context.Context) error {
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
	}
	if err := b.nc.FlushWithContext(ctx); err != nil {
		return fault.Wrap(faultv1.Reason_REASON_UNAVAILABLE, err, "the bus could not be flushed")
	}
	return nil
}

// Close delivers what subscriptions have received, sends what was published, and ends the connection; when ctx ends it
// drops the rest. It is safe to call it twice.
func (b *Bus) Close(ctx context.Context) error {
	if err := b.nc.Drain(); err != nil {
		b.nc.Close()
	}
	select {
	case <-b.closed:
		return nil
	case <-ctx.Done():
		b.nc.Close()
		<-b.closed
		return fault.From(ctx.Err())
	}
}
