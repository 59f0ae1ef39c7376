package bus_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	eventv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/bus/embed"
	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// received collects what a subscription is told.
type received struct {
	deltas chan *eventv1.KvDelta
	gaps   chan bus.Gap
}

func subscribe(t *testing.T, b *bus.Bus, s bus.Subject) *received {
	t.Helper()
	r := &received{deltas: make(chan *eventv1.KvDelta, 10000), gaps: make(chan bus.Gap, 10)}
	sub, err := bus.Subscribe(b, s, bus.Handler[*eventv1.KvDelta]{
		OnMessage: func(_ bus.Subject, m *eventv1.KvDelta) { r.deltas <- m },
		OnGap:     func(g bus.Gap) { r.gaps <- g },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sub.Close()) })
	require.NoError(t, b.Flush(t.Context()))
	return r
}

func delta(seq uint64) *eventv1.KvDelta { return &eventv1.KvDelta{WorkerId: "w", Seq: seq} }

func TestPublishSubscribe(t *testing.T) {
	t.Parallel()
	srv := kittest.NATS(t)
	sender, receiver := kittest.Bus(t, srv), kittest.Bus(t, srv)
	require.NoError(t, sender.Ready(t.Context()))
	mine := subscribe(t, receiver, bus.KV("org/model.1", "w", 0))
	all := subscribe(t, receiver, bus.KVAll())
	for seq := range uint64(100) {
		require.NoError(t, sender.Publish(t.Context(), bus.KV("org/model.1", "w", 0), delta(seq)))
	}
	require.NoError(t, sender.Publish(t.Context(), bus.KV("org/model.1", "w", 1), delta(1000)))
	for seq := range uint64(100) {
		require.Equal(t, seq, kittest.Recv(t, mine.deltas).GetSeq())
		require.Equal(t, seq, kittest.Recv(t, all.deltas).GetSeq())
	}
	require.Equal(t, uint64(1000), kittest.Recv(t, all.deltas).GetSeq())
	require.Empty(t, mine.deltas)
}

func TestMalformedIsDropped(t *testing.T) {
	t.Parallel()
	srv := kittest.NATS(t)
	reg := prometheus.NewRegistry()
	b, err := bus.Connect(t.Context(), bus.Config{}, bus.Deps{Log: kittest.Logger(t), InProcess: srv.InProcess(), Registerer: reg})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close(context.Background())) }()
	r := subscribe(t, b, bus.KVAll())
	nc, err := nats.Connect("", nats.InProcessServer(srv.InProcess()))
	require.NoError(t, err)
	defer nc.Close()
	require.NoError(t, nc.Publish(string(bus.KV("m", "w", 0)), []byte{0xff, 0xff}))
	good, err := proto.Marshal(delta(1))
	require.NoError(t, err)
	require.NoError(t, nc.Publish(string(bus.KV("m", "w", 0)), good))
	require.Equal(t, uint64(1), kittest.Recv(t, r.deltas).GetSeq())
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP kvmesh_bus_malformed_total Messages that could not be decoded by kind of subject.
# TYPE kvmesh_bus_malformed_total counter
kvmesh_bus_malformed_total{kind="kv"} 1
`), "kvmesh_bus_malformed_total"))
}

func TestTooLargeAndCancelled(t *testing.T) {
	t.Parallel()
	b := kittest.Bus(t, kittest.NATS(t))
	big := &eventv1.KvDelta{WorkerId: strings.Repeat("x", 2<<20)}
	require.Equal(t, faultv1.Reason_REASON_TOO_LARGE, fault.ReasonOf(b.Publish(t.Context(), bus.KVAll(), big)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, faultv1.Reason_REASON_CANCELLED, fault.ReasonOf(b.Publish(ctx, bus.KV("m", "w", 0), delta(1))))
}

// TestSlowConsumerIsTold: with the handler stuck, what exceeds the limits is dropped and the handler hears of it.
func TestSlowConsumerIsTold(t *testing.T) {
	t.Parallel()
	b := kittest.BusWith(t, kittest.NATS(t), bus.Config{PendingMessages: 10})
	entered, release := make(chan struct{}, 1000), make(chan struct{})
	gaps := make(chan bus.Gap, 1000)
	seqs := make(chan uint64, 1000)
	sub, err := bus.Subscribe(b, bus.KVAll(), bus.Handler[*eventv1.KvDelta]{
		OnMessage: func(_ bus.Subject, m *eventv1.KvDelta) {
			entered <- struct{}{}
			<-release
			seqs <- m.GetSeq()
		},
		OnGap: func(g bus.Gap) { gaps <- g },
	})
	require.NoError(t, err)
	for seq := range uint64(100) {
		require.NoError(t, b.Publish(t.Context(), bus.KV("m", "w", 0), delta(seq)))
	}
	kittest.Recv(t, entered)
	require.NoError(t, b.Flush(t.Context()))
	close(release)
	require.Equal(t, bus.GapSlow, kittest.Recv(t, gaps))
	require.Zero(t, kittest.Recv(t, seqs))
	require.NoError(t, sub.Close())
	require.Less(t, len(seqs), 99)
}

// TestReconnect: both breaks are told, and messages flow again after a restart of the server.
func TestReconnect(t *testing.T) {
	t.Parallel()
	srv := kittest.NATSWith(t, embed.Config{Listen: "127.0.0.1:0"})
	url := srv.URL()
	b := connectURL(t, url)
	kittest.Eventually(t, func() error { return b.Ready(t.Context()) })
	r := subscribe(t, b, bus.KVAll())
	srv.Close()
	require.Equal(t, bus.GapDisconnected, kittest.Recv(t, r.gaps))
	require.Error(t, b.Ready(t.Context()))
	kittest.NATSWith(t, embed.Config{Listen: strings.TrimPrefix(url, "nats://")})
	require.Equal(t, bus.GapReconnected, kittest.Recv(t, r.gaps))
	require.NoError(t, b.Publish(t.Context(), bus.KV("m", "w", 0), delta(5)))
	require.Equal(t, uint64(5), kittest.Recv(t, r.deltas).GetSeq())
}

func connectURL(t *testing.T, url string) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(t.Context(), bus.Config{URL: url, CardTTL: 500 * time.Millisecond}, bus.Deps{Log: kittest.Logger(t)})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = b.Close(ctx)
	})
	return b
}

// TestStartBeforeServer: services may start before NATS.
func TestStartBeforeServer(t *testing.T) {
	t.Parallel()
	probe := kittest.NATSWith(t, embed.Config{Listen: "127.0.0.1:0"})
	url := probe.URL()
	probe.Close()
	b := connectURL(t, url)
	require.ErrorContains(t, b.Ready(t.Context()), "not connected")
	kittest.NATSWith(t, embed.Config{Listen: strings.TrimPrefix(url, "nats://")})
	kittest.Eventually(t, func() error { return b.Ready(t.Context()) })
	r := subscribe(t, b, bus.KVAll())
	require.NoError(t, b.Publish(t.Context(), bus.KV("m", "w", 0), delta(1)))
	kittest.Recv(t, r.deltas)
}

func TestConnectRefusesWrongConfig(t *testing.T) {
	t.Parallel()
	deps := bus.Deps{Log: kittest.Logger(t)}
	for name, cfg := range map[string]bus.Config{
		"card_ttl":         {CardTTL: time.Millisecond},
		"key":              {Cert: "c"},
		"url":              {URL: "localhost"},
		"pending_messages": {PendingMessages: -1},
		"pending_bytes":    {PendingBytes: -1 * conf.KiB},
		"runs no NATS":     {URL: bus.Embedded},
	} {
		_, err := bus.Connect(t.Context(), cfg, deps)
		require.ErrorContains(t, err, name)
	}
	b, err := bus.Connect(t.Context(), bus.Config{URL: "nats://user:hunter2@127.0.0.1:1"}, deps)
	require.NoError(t, err)
	require.NotContains(t, b.Ready(t.Context()).Error(), "hunter2")
	require.NoError(t, b.Close(t.Context()))
	require.NoError(t, b.Close(t.Context()), "closing twice is allowed")
}

func BenchmarkPublish(b *testing.B) {
	srv := kittest.NATS(b)
	c := kittest.Bus(b, srv)
	for _, units := range []int{0, 64, 1024} {
		b.Run(strconv.Itoa(units), func(b *testing.B) {
			m := &eventv1.KvDelta{WorkerId: "w", Tiers: []*eventv1.TierDelta{{Added: make([]uint64, units)}}}
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Publish(b.Context(), bus.KV("m", "w", 0), m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
