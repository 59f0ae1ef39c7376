package schedulersvc

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/services/kit/bus"
)

const (
	// refreshed is how many waiting prompts are looked up per tick, some 10 us each.
	refreshed       = 32
	tickInterval    = 25 * time.Millisecond // half of the shortest snapshot retry
	expireInterval  = time.Second
	forgetInterval  = time.Minute
	goodbyeDeadline = time.Second
)

// Run follows the registry and the events until ctx ends. It owns all goroutines of the service.
func (s *Service) Run(ctx context.Context) error {
	s.life = ctx
	defer s.fetcher.Wait()
	events, err := bus.Subscribe(s.deps.Bus, bus.KVAll(), bus.Handler[*eventv1.KvDelta]{
		OnMessage: func(_ bus.Subject, d *eventv1.KvDelta) { s.machine.Delta(s.deps.Now(), d) },
		OnGap:     s.gap,
	})
	if err != nil {
		return fmt.Errorf("follow KV events: %w", err)
	}
	defer events.Close() //nolint:errcheck // the connection ends with the process
	peers, err := bus.Subscribe(s.deps.Bus, bus.InflightAll(), bus.Handler[*eventv1.InflightDelta]{
		OnMessage: func(_ bus.Subject, d *eventv1.InflightDelta) {
			if !s.ledger.Peer(s.deps.Now(), d) {
				s.meter.peerGaps.Inc()
			}
		},
	})
	if err != nil {
		return fmt.Errorf("follow other schedulers: %w", err)
	}
	defer peers.Close() //nolint:errcheck // as above
	var g errgroup.Group
	g.Go(func() error { return s.deps.Bus.WatchCards(ctx, s.card) })
	g.Go(func() error { s.tick(ctx); return nil })
	g.Go(func() error { s.share(ctx); return nil })
	g.Go(func() error { return s.sink.Run(ctx) })
	g.Go(func() error { return s.requests.Run(ctx) })
	return g.Wait()
}

// gap is told by the bus that messages were lost. While it is away there is nothing to ask for.
func (s *Service) gap(g bus.Gap) {
	s.deps.Log.Warn("bus lost messages", "gap", g.String())
	if g != bus.GapDisconnected {
		s.machine.Disturb(s.deps.Now())
	}
}

// card takes the registry's changes.
func (s *Service) card(u bus.CardUpdate) {
	now := s.deps.Now()
	switch {
	case u.Synced:
		s.synced.Store(true)
	case u.Gone:
		if s.fleet.Gone(u.WorkerID) {
			s.deps.Log.Info("worker left the fleet", "worker", u.WorkerID)
		}
	case s.fleet.Card(now, u.Card):
		s.deps.Log.Info("worker joined the fleet", "worker", u.WorkerID, "ranks", u.Card.GetRanks(),
			"models", len(u.Card.GetModels()), "address", u.Card.GetAdapterAddress())
	}
}

// tick drives what depends on time alone.
func (s *Service) tick(ctx context.Context) {
	fast, slow, rare := time.NewTicker(tickInterval), time.NewTicker(expireInterval), time.NewTicker(forgetInterval)
	defer fast.Stop()
	defer slow.Stop()
	defer rare.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-fast.C:
			s.machine.Tick(s.deps.Now())
			s.queue.Refresh(refreshed)
			s.queue.Tick()
		case <-slow.C:
			s.expire(s.deps.Now())
			s.index.Sweep()
		case <-rare.C:
			s.engine.Forget()
		}
	}
}

func (s *Service) expire(now time.Time) {
	for _, b := range s.ledger.Expire(now) {
		s.engine.Abandon(b)
		s.meter.abandoned.Inc()
	}
	for _, t := range s.fleet.View().Targets {
		if n := t.Expect.Expire(now); n > 0 && t.HasEvents() {
			s.meter.unconfirmed.Add(float64(n))
		}
	}
}

// share tells the other schedulers of this one's load: changes in batches, everything now and then, and a good-bye.
func (s *Service) share(ctx context.Context) {
	full := time.NewTicker(s.cfg.Peers.Full)
	defer full.Stop()
	s.publish(ctx, s.ledger.Full())
	for {
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeDeadline)
			defer cancel()
			s.publish(ctx, s.ledger.Bye())
			_ = s.deps.Bus.Flush(ctx) // a peer that misses it lets the share expire
			return
		case <-full.C:
			s.publish(ctx, s.ledger.Full())
		case <-s.ledger.Dirty():
			s.batch(ctx)
		}
	}
}

// batch gives changes a moment to gather and sends them all.
func (s *Service) batch(ctx context.Context) {
	wait := time.NewTimer(s.cfg.Peers.Batch)
	defer wait.Stop()
	select {
	case <-ctx.Done():
	case <-wait.C:
	}
	for d := s.ledger.Take(); d != nil; d = s.ledger.Take() {
		s.publish(ctx, d)
	}
}

func (s *Service) publish(ctx context.Context, d *eventv1.InflightDelta) {
	if err := s.deps.Bus.Publish(ctx, bus.Inflight(s.id), d); err != nil {
		s.meter.publishFailures.Inc()
		s.deps.Log.Debug("load cannot be shared now", "err", err)
	}
}
