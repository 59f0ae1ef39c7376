package workeradapter_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/protobuf/proto"

	eventv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/feed"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/stream"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq/zmqtest"
)

// cache is the reference model of a worker's cache: what it truly holds, and the events that it says of it.
type cache struct {
	rng    *rand.Rand
	next   uint64
	blocks map[uint64]*trueBlock
}

// trueBlock is a block with at least one copy.
type trueBlock struct {
	prefix []uint32
	copies int
}

const modelBlock = 32 // tokens per block

// step changes the cache and returns the batch that says so.
func (c *cache) step() []any {
	var events []any
	for range 1 + c.rng.IntN(4) {
		switch n := c.rng.IntN(50); {
		case n == 0:
			clear(c.blocks)
			events = append(events, []any{"AllBlocksCleared"})
		case n < 20 && len(c.blocks) > 10:
			events = append(events, c.remove())
		default:
			events = append(events, c.store())
		}
	}
	return events
}

// remove drops one copy of a block.
func (c *cache) remove() any {
	hashes := slices.Sorted(maps.Keys(c.blocks))
	h := hashes[c.rng.IntN(len(hashes))]
	if c.blocks[h].copies--; c.blocks[h].copies == 0 {
		delete(c.blocks, h)
	}
	return map[string]any{"type": "BlockRemoved", "block_hashes": []any{h}, "medium": "GPU", "group_idx": 0}
}

// store adds one or more blocks behind a block that is held, or at the start of a sequence, or one more copy.
func (c *cache) store() any {
	hashes := slices.Sorted(maps.Keys(c.blocks))
	var parent any
	var prefix []uint32
	if len(hashes) > 0 && c.rng.IntN(3) > 0 {
		h := hashes[c.rng.IntN(len(hashes))]
		parent, prefix = h, c.blocks[h].prefix
	}
	var stored []any
	var ids []uint32
	for range 1 + c.rng.IntN(3) {
		c.next++
		for range modelBlock {
			ids = append(ids, c.rng.Uint32N(150_000))
		}
		stored = append(stored, c.next)
		c.blocks[c.next] = &trueBlock{prefix: append(slices.Clone(prefix), ids...), copies: 1}
	}
	ev := map[string]any{
		"type": "BlockStored", "block_hashes": stored, "parent_block_hash": parent, "token_ids": ids,
		"block_size": modelBlock, "medium": "GPU", "group_idx": 0,
	}
	if c.rng.IntN(5) == 0 { // a second copy of all of them, in the same words
		for _, h := range stored {
			c.blocks[h.(uint64)].copies++
		}
		return []any{ev, ev}
	}
	return ev
}

// units is what the cache truly holds.
func (c *cache) units() map[uint64]bool {
	out := map[uint64]bool{}
	for _, b := range c.blocks {
		all := kvblock.AppendUnits(nil, kvblock.Namespace{Model: "m"}.Root(), b.prefix, "")
		for _, u := range all[len(all)-modelBlock/kvblock.UnitTokens:] {
			out[u] = true
		}
	}
	return out
}

// payload encodes a step; doubled events are flattened.
func payload(t *testing.T, events []any) []byte {
	t.Helper()
	var flat []any
	for _, e := range events {
		if pair, ok := e.([]any); ok && len(pair) == 2 {
			flat = append(flat, pair...)
			continue
		}
		flat = append(flat, e)
	}
	raw, err := msgpack.Marshal([]any{1.0, flat, 0})
	require.NoError(t, err)
	return raw
}

// lossy is a scheduler behind a bus that loses deltas. A stale view is replaced by a snapshot.
type lossy struct {
	mu   sync.Mutex
	rng  *rand.Rand
	rate int
	view *view
}

func (l *lossy) publish(d *eventv1.KvDelta) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate > 0 && l.rng.IntN(l.rate) == 0 {
		return nil
	}
	l.view.take(proto.CloneOf(d))
	return nil
}

// mend takes a snapshot when the view is stale. Deltas that came meanwhile are part of it or seen as a gap next time.
func (l *lossy) mend(s *stream.Stream) {
	l.mu.Lock()
	stale := l.view.stale
	l.mu.Unlock()
	if !stale {
		return
	}
	snap := s.Snapshot()
	fresh := &view{epoch: snap.Epoch, seq: snap.Seq, held: map[uint64]int{}}
	for _, u := range snap.Tiers[mirror.GPU] {
		fresh.held[u]++
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if snap.Epoch == l.view.epoch && snap.Seq >= l.view.seq {
		l.view = fresh
	}
}

// agrees is nil when the view holds exactly what the cache does.
func (l *lossy) agrees(want map[uint64]bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := 0
	for u, n := range l.view.held {
		if n > 0 {
			got++
		}
		if n < 0 || n > 1 || n == 1 && !want[u] {
			return fmt.Errorf("unit %x held %d times, truly held: %t", u, n, want[u])
		}
	}
	if got != len(want) {
		return fmt.Errorf("%d units held, truly %d", got, len(want))
	}
	return nil
}

// TestModel: a worker changes its cache, loses batches, restarts and hangs up at random; the bus loses deltas. Once all
// rests, the scheduler's view equals the worker's true cache.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			runModel(t, seed)
		})
	}
}

func runModel(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 5))
	p := zmqtest.Start(t)
	l := &lossy{rng: rand.New(rand.NewPCG(seed, 6)), rate: 8, view: &view{held: map[uint64]int{}}}
	s := stream.New(stream.Config{WorkerID: "w", Mirror: mirror.Config{Model: "m"}}, stream.Deps{
		Log: kittest.Logger(t), Publish: l.publish, Clock: time.Now,
	})
	live, replay := p.Endpoints()
	f := feed.New(feed.Config{
		Live: zmq.Subscription{Endpoint: live}, Replay: replay, IdleCheck: 30 * time.Millisecond,
	}, s, kittest.Logger(t), feed.Metrics{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-done)
	}()

	c := &cache{rng: rng, blocks: map[uint64]*trueBlock{}}
	for range 150 {
		switch n := rng.IntN(60); {
		case n == 0:
			p.Restart()
			clear(c.blocks)
		case n == 1:
			p.Hangup()
		case n < 8:
			p.Lose(payload(t, c.step()))
		case n < 12:
			l.mend(s)
		default:
			p.Publish(payload(t, c.step()))
		}
	}
	p.Publish(payload(t, []any{c.store()})) // a process that says nothing at all cannot be told from the one before
	l.mu.Lock()
	l.rate = 0
	l.mu.Unlock()
	want := c.units()
	kittest.Eventually(t, func() error {
		s.Heartbeat()
		l.mend(s)
		return l.agrees(want)
	})
}
