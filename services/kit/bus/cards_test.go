package bus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/bus/embed"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

// watch runs WatchCards until the test ends.
func watch(t *testing.T, b *bus.Bus) <-chan bus.CardUpdate {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	updates, done := make(chan bus.CardUpdate, 10000), make(chan error, 1)
	go func() { done <- b.WatchCards(ctx, func(u bus.CardUpdate) { updates <- u }) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, kittest.Recv(t, done))
	})
	return updates
}

// until skips updates for which ok is false: refreshes and repeated watches are not part of what a test is about.
func until(t *testing.T, updates <-chan bus.CardUpdate, ok func(bus.CardUpdate) bool) bus.CardUpdate {
	t.Helper()
	for {
		if u := kittest.Recv(t, updates); ok(u) {
			return u
		}
	}
}

func isCard(id string) func(bus.CardUpdate) bool {
	return func(u bus.CardUpdate) bool { return u.WorkerID == id && u.Card != nil }
}

func isGone(id string) func(bus.CardUpdate) bool {
	return func(u bus.CardUpdate) bool { return u.WorkerID == id && u.Gone }
}

func card(id string) *workerv1.WorkerCard {
	return &workerv1.WorkerCard{WorkerId: id, HttpUrl: "http://" + id}
}

// keep refreshes a card until the test or stop ends it.
func keep(t *testing.T, b *bus.Bus, id string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			put, end := context.WithTimeout(ctx, time.Second)
			_ = b.PutCard(put, card(id)) // fails while the server is away
			end()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func TestCards(t *testing.T) {
	t.Parallel()
	srv := kittest.NATS(t)
	adapter, scheduler := kittest.Bus(t, srv), kittest.Bus(t, srv)
	require.NoError(t, adapter.PutCard(t.Context(), card("w1")))
	require.NoError(t, adapter.PutCard(t.Context(), card("w2")))
	updates := watch(t, scheduler)
	require.Equal(t, "http://w1", kittest.Recv(t, updates).Card.GetHttpUrl())
	require.Equal(t, "http://w2", kittest.Recv(t, updates).Card.GetHttpUrl())
	require.True(t, kittest.Recv(t, updates).Synced)
	changed := card("w1")
	changed.Version = "2"
	require.NoError(t, adapter.PutCard(t.Context(), changed))
	require.Equal(t, "2", until(t, updates, isCard("w1")).Card.GetVersion())
	require.NoError(t, adapter.DeleteCard(t.Context(), "w1"))
	until(t, updates, isGone("w1"))
}

func TestEmptyRegistryIsSynced(t *testing.T) {
	t.Parallel()
	require.True(t, kittest.Recv(t, watch(t, kittest.Bus(t, kittest.NATS(t)))).Synced)
}

// TestLeaseEnds: a card that nobody refreshes is gone, one that is refreshed stays.
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	srv := kittest.NATS(t)
	b := kittest.BusWith(t, srv, bus.Config{CardTTL: 500 * time.Millisecond})
	updates := watch(t, b)
	stop := keep(t, b, "dies")
	keep(t, b, "stays")
	until(t, updates, isCard("dies"))
	until(t, updates, isCard("stays"))
	stop()
	until(t, updates, func(u bus.CardUpdate) bool {
		require.False(t, isGone("stays")(u), "a refreshed card went away")
		return isGone("dies")(u)
	})
	until(t, updates, isCard("stays"))
}

// TestRegistrySurvivesRestart: the server comes back without its memory; holders refill the registry, watchers hold on
// to what they knew and see the new cards.
func TestRegistrySurvivesRestart(t *testing.T) {
	t.Parallel()
	srv := kittest.NATSWith(t, embed.Config{Listen: "127.0.0.1:0"})
	url := srv.URL()
	adapter, scheduler := connectURL(t, url), connectURL(t, url)
	updates := watch(t, scheduler)
	keep(t, adapter, "w1")
	until(t, updates, isCard("w1"))
	srv.Close()
	kittest.Eventually(t, func() error {
		if scheduler.Ready(t.Context()) == nil {
			return context.DeadlineExceeded
		}
		return nil
	})
	for len(updates) > 0 {
		<-updates
	}
	kittest.NATSWith(t, embed.Config{Listen: strings.TrimPrefix(url, "nats://")})
	until(t, updates, func(u bus.CardUpdate) bool {
		require.False(t, u.Gone, "an outage of NATS is not the death of a worker")
		return isCard("w1")(u)
	})
	keep(t, adapter, "w2")
	until(t, updates, isCard("w2"))
}

// TestOutageEndsCards: knowledge from before an outage is not kept forever.
func TestOutageEndsCards(t *testing.T) {
	t.Parallel()
	srv := kittest.NATSWith(t, embed.Config{Listen: "127.0.0.1:0"})
	cfg := bus.Config{URL: srv.URL(), CardTTL: 300 * time.Millisecond, CardOutage: 600 * time.Millisecond}
	b, err := bus.Connect(t.Context(), cfg, bus.Deps{Log: kittest.Logger(t)})
	require.NoError(t, err)
	defer func() { _ = b.Close(context.Background()) }()
	updates := watch(t, b)
	stop := keep(t, b, "w1")
	until(t, updates, isCard("w1"))
	srv.Close()
	until(t, updates, isGone("w1"))
	stop()
}

func TestPutCardRefusesNames(t *testing.T) {
	t.Parallel()
	b := kittest.Bus(t, kittest.NATS(t))
	for _, id := range []string{"", "a.b", "a b", "a/b", "ä", "*"} {
		err := b.PutCard(t.Context(), card(id))
		require.Equal(t, faultv1.Reason_REASON_INVALID_REQUEST, fault.ReasonOf(err), id)
	}
}

// registry opens the bucket beside the bus, as another program would.
func registry(t *testing.T, srv *embed.Server) jetstream.KeyValue {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(srv.InProcess()))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), bus.CardBucket)
	require.NoError(t, err)
	return kv
}

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.Marshal(m)
	require.NoError(t, err)
	return raw
}

// TestDeletedRegistryIsRebuilt: somebody deletes the bucket under a living connection; refreshes make it again and
// watchers find it.
func TestDeletedRegistryIsRebuilt(t *testing.T) {
	t.Parallel()
	srv := kittest.NATS(t)
	cfg := bus.Config{CardTTL: 500 * time.Millisecond}
	adapter, scheduler := kittest.BusWith(t, srv, cfg), kittest.BusWith(t, srv, cfg)
	keep(t, adapter, "w1")
	updates := watch(t, scheduler)
	until(t, updates, isCard("w1"))
	nc, err := nats.Connect("", nats.InProcessServer(srv.InProcess()))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	require.NoError(t, js.DeleteKeyValue(t.Context(), bus.CardBucket))
	keep(t, adapter, "w2")
	until(t, updates, isCard("w2"))
	until(t, updates, isCard("w1"))
}
