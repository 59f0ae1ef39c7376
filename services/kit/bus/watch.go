package bus

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
)

// restoreGrace is what holders need to find NATS again after an outage, to notice that the registry is lost and to make
// it anew: reconnectWait, the publisher's own retries for half a second, and room for a busy machine.
const restoreGrace = 2 * time.Second

// WatchCards reports the registry: first all cards, then Synced, then each change, in the caller's goroutine until ctx
// ends; it returns nil then.
//
// A card that is not refreshed within CardTTL of its last arrival here is reported Gone, whether or not NATS says so:
// the clocks of other machines do not matter. While this process itself cannot reach NATS nothing arrives; cards then
// stay for CardOutage, because it is more likely that NATS is away than that all workers died, and after it for a
// lease and two seconds more. A NATS that keeps the connection and says nothing is away just as well. When the
// connection or the registry comes back the watch starts again, and every card there is reported again.
func (b *Bus) WatchCards(ctx context.Context, report func(CardUpdate)) error {
	w := &cardWatch{bus: b, report: report, seen: map[string]time.Time{}}
	for ctx.Err() == nil {
		w.round(ctx)
	}
	return nil
}

// cardWatch is one WatchCards call.
type cardWatch struct {
	bus    *Bus
	report func(CardUpdate)
	seen   map[string]time.Time // worker -> last arrival of its card
	// mute is since when NATS does not answer on a standing connection, muted when that was found last.
	mute, muted time.Time
}

// round watches until the watch has to be made anew.
func (w *cardWatch) round(ctx context.Context) {
	_, restored := w.bus.state()
	updates, stop := w.open(ctx)
	defer stop()
	ttl := w.bus.cfg.CardTTL
	tick := time.NewTicker(ttl / 8) // a lease ends at most an eighth late
	defer tick.Stop()
	var retry <-chan time.Time
	if updates == nil {
		retry = time.After(rewatchPause)
	}
	heard := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-restored: // the server may be another one, with no registry yet
			w.bus.forgetBucket()
			return
		case <-retry:
			return
		case e, ok := <-updates:
			if !ok {
				return
			}
			heard = time.Now()
			w.take(e)
		case <-tick.C:
			w.expire(ctx)
			// A registry that was deleted under a living connection sends nothing, ever: look again now and then.
			if time.Since(heard) > 2*ttl {
				w.bus.forgetBucket()
				return
			}
		}
	}
}

// openLimit bounds the set-up of a watch, a few round trips: when an answer is lost, the next attempt must not wait long.
const openLimit = time.Second

// open starts a watch; updates is nil when that is not possible now.
func (w *cardWatch) open(ctx context.Context) (updates <-chan jetstream.KeyValueEntry, stop func()) {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	kv, err := w.bus.bucket(ctx)
	if err == nil {
		var watcher jetstream.KeyWatcher
		// The watch outlives this function: its context must not be the one that bounds the set-up. It needs an end of
		// its own, because Stop on a closed connection leaves the client's goroutine behind.
		watching, end := context.WithCancel(context.WithoutCancel(ctx))
		if watcher, err = kv.WatchAll(watching); err == nil {
			return watcher.Updates(), func() {
				_ = watcher.Stop()
				end()
			}
		}
		end()
		w.bus.forgetBucket()
	}
	w.bus.log.Debug("worker registry cannot be watched now", "err", err)
	return nil, func() {}
}

// take reports one entry; the nil entry ends the initial state.
func (w *cardWatch) take(e jetstream.KeyValueEntry) {
	if e == nil {
		w.report(CardUpdate{Synced: true})
		return
	}
	id := e.Key()
	if e.Operation() != jetstream.KeyValuePut {
		w.gone(id)
		return
	}
	card := new(workerv1.WorkerCard)
	if err := proto.Unmarshal(e.Value(), card); err != nil || card.GetWorkerId() != id {
		w.bus.metrics.malformed.WithLabelValues("card").Inc()
		return
	}
	w.seen[id] = time.Now()
	w.report(CardUpdate{WorkerID: id, Card: card})
}

// gone reports a worker once: the delete marker and the end of the lease may both be seen.
func (w *cardWatch) gone(id string) {
	if _, known := w.seen[id]; known {
		delete(w.seen, id)
		w.report(CardUpdate{WorkerID: id, Gone: true})
	}
}

// expire reports the cards whose lease ended here.
func (w *cardWatch) expire(ctx context.Context) {
	now, limit := time.Now(), w.bus.cfg.CardTTL
	late := func(last time.Time) bool { return now.Sub(last) > limit }
	if !slices.ContainsFunc(slices.Collect(maps.Values(w.seen)), late) {
		return
	}
	outage, _ := w.bus.state()
	if outage.IsZero() {
		outage = w.silence(ctx)
	}
	if !outage.IsZero() {
		if now.Sub(outage) < w.bus.cfg.CardOutage {
			return
		}
	} else if now.Sub(w.bus.connectedSince()) < limit+restoreGrace || now.Sub(w.muted) < limit+restoreGrace {
		return // holders have not had the time to refresh
	}
	for id, last := range w.seen {
		if late(last) {
			w.gone(id)
		}
	}
}

// answerLimit bounds the wait for NATS's answer to a ping, which takes a millisecond.
const answerLimit = 300 * time.Millisecond

// silence asks NATS for a sign of life, and returns since when it gives none; zero when it does. A process that stands
// still, or a network that swallows everything, leaves the connection open: the client's own pings take a minute.
func (w *cardWatch) silence(ctx context.Context) time.Time {
	asking, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if err := w.bus.nc.FlushWithContext(asking); err == nil || ctx.Err() != nil {
		w.mute = time.Time{}
		return w.mute
	}
	w.muted = time.Now()
	if w.mute.IsZero() {
		w.mute = w.muted
		w.bus.log.Warn("NATS does not answer: known workers are kept")
	}
	return w.mute
}
