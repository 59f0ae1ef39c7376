package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// CardBucket is the registry: one key per worker, in memory, with a lease.
const CardBucket = "kvmesh_workers"

// rewatchPause keeps a watch that fails at once from spinning.
const rewatchPause = 250 * time.Millisecond

// CardUpdate is one change that WatchCards reports.
type CardUpdate struct {
	// WorkerID names the worker; empty for Synced.
	WorkerID string
	// Card is the worker's card, new or refreshed; nil for Gone and Synced. It is shared: do not change it.
	Card *workerv1.WorkerCard
	// Gone: the card was deleted or its lease ended.
	Gone bool
	// Synced: every card that the registry had when the watch (re)started has been reported.
	Synced bool
}

// PutCard writes or refreshes a worker's card; refresh at least three times per CardTTL. A registry that NATS lost in a
// restart is made again.
func (b *Bus) PutCard(ctx context.Context, card *workerv1.WorkerCard) error {
	if !plainToken(card.GetWorkerId()) {
		return fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "a worker id is made of letters, digits, _ and -").
			WithParam("worker_id")
	}
	raw, err := proto.Marshal(card)
	if err != nil {
		return fmt.Errorf("marshal card of %s: %w", card.GetWorkerId(), err)
	}
	return b.withBucket(ctx, func(kv jetstream.KeyValue) error {
		_, err := kv.Put(ctx, card.GetWorkerId(), raw)
		return err
	})
}

// DeleteCard takes a worker off the registry at once, for a clean stop.
func (b *Bus) DeleteCard(ctx context.Context, workerID string) error {
	return b.withBucket(ctx, func(kv jetstream.KeyValue) error { return kv.Delete(ctx, workerID) })
}

// plainToken keeps card keys to what needs no escape, so that other tools can read the bucket.
func plainToken(s string) bool {
	for i := range len(s) {
		if !plain(s[i]) {
			return false
		}
	}
	return s != ""
}

// withBucket runs f on the registry and, when it turns out to be missing, once more on a new one.
func (b *Bus) withBucket(ctx context.Context, f func(jetstream.KeyValue) error) error {
	kv, err := b.bucket(ctx)
	if err == nil {
		if err = f(kv); err == nil {
			return nil
		}
		if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrStreamNotFound) {
			b.forgetBucket()
			if kv, err = b.bucket(ctx); err == nil {
				if err = f(kv); err == nil {
					return nil
				}
			}
		}
	}
	return fault.Wrap(faultv1.Reason_REASON_UNAVAILABLE, err, "the worker registry cannot be reached")
}

// bucket finds or makes the registry and remembers it.
func (b *Bus) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	b.mu.Lock()
	kv := b.kv
	b.mu.Unlock()
	if kv != nil {
		return kv, nil
	}
	kv, err := b.js.KeyValue(ctx, CardBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = b.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: CardBucket, Description: "one card per worker; a card that is gone is a worker that is gone",
			TTL: b.cfg.CardTTL, History: 1, Storage: jetstream.MemoryStorage,
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // another process was first, perhaps with another lease
			kv, err = b.js.KeyValue(ctx, CardBucket)
		}
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.kv = kv
	b.mu.Unlock()
	return kv, nil
}

// forgetBucket makes the next use look for the registry, and make it if the server has lost it.
func (b *Bus) forgetBucket() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kv = nil
}
