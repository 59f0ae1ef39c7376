package feed_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/kvmesh/kvmesh/services/kit/kittest"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/feed"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq/zmqtest"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// sink keeps what was applied since the last restart.
type sink struct {
	mu       sync.Mutex
	applied  []uint64
	restarts []string
	state    feed.State
}

func (s *sink) Apply(b *kvevents.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range b.Events {
		s.applied = append(s.applied, e.Hashes...)
	}
}

func (s *sink) Restart(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied, s.restarts = nil, append(s.restarts, reason)
}

func (s *sink) Changed(st feed.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = st
}

// counter counts.
type counter struct{ n atomic.Int64 }

func (c *counter) Inc() { c.n.Add(1) }

// bundle is a feed that follows a scripted publisher.
type bundle struct {
	*zmqtest.Publisher
	t    *testing.T
	sink *sink
	gaps counter
	// unreplayed counts gaps that no replay filled.
	unreplayed counter
}

// batch is a payload whose one event names hash n.
func batch(t *testing.T, n uint64) []byte {
	t.Helper()
	b, err := msgpack.Marshal([]any{1.0, []any{[]any{"BlockRemoved", []any{n}}}, 0})
	require.NoError(t, err)
	return b
}

// follow starts a feed; change may alter its configuration.
func follow(t *testing.T, p *zmqtest.Publisher, change func(*feed.Config)) *bundle {
	t.Helper()
	b := &bundle{Publisher: p, t: t, sink: &sink{}}
	live, replay := p.Endpoints()
	cfg := feed.Config{Live: zmq.Subscription{Endpoint: live}, Replay: replay}
	if change != nil {
		change(&cfg)
	}
	f := feed.New(cfg, b.sink, kittest.Logger(t), feed.Metrics{
		Gaps: &b.gaps, Unreplayed: &b.unreplayed,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return b
}

// publish sends batches first to last.
func (b *bundle) publish(first, last uint64) {
	b.t.Helper()
	for n := first; n <= last; n++ {
		b.Publish(batch(b.t, n))
	}
}

// expect waits until exactly these hashes were applied since the last restart.
func (b *bundle) expect(first, last uint64, restarts int) {
	b.t.Helper()
	var want []uint64
	for n := first; n <= last; n++ {
		want = append(want, n)
	}
	kittest.Eventually(b.t, func() error {
		b.sink.mu.Lock()
		defer b.sink.mu.Unlock()
		if len(b.sink.applied) != len(want) || len(b.sink.restarts) != restarts {
			return errorf("applied %v, restarts %q; want %v", b.sink.applied, b.sink.restarts, want)
		}
		return nil
	})
	b.sink.mu.Lock()
	defer b.sink.mu.Unlock()
	require.Equal(b.t, want, b.sink.applied)
}

// incomplete tells what the state says once nothing is being mended.
func (b *bundle) incomplete(want bool) {
	b.t.Helper()
	kittest.Eventually(b.t, func() error {
		b.sink.mu.Lock()
		defer b.sink.mu.Unlock()
		if b.sink.state.Mending || !b.sink.state.Connected || b.sink.state.Incomplete != want {
			return errorf("state %+v", b.sink.state)
		}
		return nil
	})
}

// fault is the replay's as the state tells it.
func (b *bundle) fault() string {
	b.sink.mu.Lock()
	defer b.sink.mu.Unlock()
	return b.sink.state.ReplayFault
}
