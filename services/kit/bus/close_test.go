package bus_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	eventv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

// TestOrderPerSender: many senders at once; each one's messages arrive whole and in order.
func TestOrderPerSender(t *testing.T) {
	t.Parallel()
	srv := kittest.NATS(t)
	r := subscribe(t, kittest.Bus(t, srv), bus.KVModel("m"))
	const senders, each = 6, 300
	var wg sync.WaitGroup
	for s := range senders {
		b := kittest.Bus(t, srv)
		wg.Go(func() {
			for seq := range uint64(each) {
				m := &eventv1.KvDelta{WorkerId: strconv.Itoa(s), Seq: seq}
				if err := b.Publish(t.Context(), bus.KV("m", m.GetWorkerId(), 0), m); err != nil {
					t.Errorf("publish: %v", err)
				}
			}
		})
	}
	wg.Wait()
	next := map[string]uint64{}
	for range senders * each {
		m := kittest.Recv(t, r.deltas)
		require.Equal(t, next[m.GetWorkerId()], m.GetSeq(), "sender %s", m.GetWorkerId())
		next[m.GetWorkerId()]++
	}
	require.Len(t, next, senders)
	require.Empty(t, r.gaps)
}

// TestNothingAfterClose: once Close has returned, a handler is not called; messages meanwhile reach other
// subscriptions.
func TestNothingAfterClose(t *testing.T) {
	t.Parallel()
	b := kittest.Bus(t, kittest.NATS(t))
	other := subscribe(t, b, bus.KVAll())
	var mu sync.Mutex
	closed, late := false, 0
	sub, err := bus.Subscribe(b, bus.KVAll(), bus.Handler[*eventv1.KvDelta]{OnMessage: func(bus.Subject, *eventv1.KvDelta) {
		mu.Lock()
		defer mu.Unlock()
		if closed {
			late++
		}
	}})
	require.NoError(t, err)
	for seq := range uint64(500) {
		require.NoError(t, b.Publish(t.Context(), bus.KV("m", "w", 0), delta(seq)))
		if seq == 250 {
			require.NoError(t, sub.Close())
			mu.Lock()
			closed = true
			mu.Unlock()
		}
	}
	for seq := range uint64(500) {
		require.Equal(t, seq, kittest.Recv(t, other.deltas).GetSeq())
	}
	mu.Lock()
	defer mu.Unlock()
	require.Zero(t, late)
}

// TestCloseSendsWhatWasPublished: a clean stop loses nothing that Publish accepted.
func TestCloseSendsWhatWasPublished(t *testing.T) {
	t.Parallel()
	srv := kittest.NATS(t)
	r := subscribe(t, kittest.Bus(t, srv), bus.InflightAll())
	b, err := bus.Connect(t.Context(), bus.Config{}, bus.Deps{Log: kittest.Logger(t), InProcess: srv.InProcess()})
	require.NoError(t, err)
	for seq := range uint64(1000) {
		require.NoError(t, b.Publish(t.Context(), bus.Inflight("s.1"), delta(seq)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	require.NoError(t, b.Close(ctx))
	for seq := range uint64(1000) {
		require.Equal(t, seq, kittest.Recv(t, r.deltas).GetSeq())
	}
	require.Error(t, b.Publish(t.Context(), bus.Inflight("s.1"), delta(0)))
	require.Error(t, b.Flush(t.Context()))
	_, err = bus.Subscribe(b, bus.KVAll(), bus.Handler[*eventv1.KvDelta]{OnMessage: func(bus.Subject, *eventv1.KvDelta) {}})
	require.Error(t, err)
}

// TestManyWatchersAgree: every watcher ends with the same registry, whatever it saw on the way.
func TestManyWatchersAgree(t *testing.T) {
	t.Parallel()
	srv := kittest.NATS(t)
	writer := kittest.Bus(t, srv)
	early := watch(t, kittest.Bus(t, srv))
	for i := range 40 {
		c := card("w" + strconv.Itoa(i%10))
		c.MaxSequences = uint32(i)
		require.NoError(t, writer.PutCard(t.Context(), c))
		if i%7 == 0 {
			require.NoError(t, writer.DeleteCard(t.Context(), c.GetWorkerId()))
		}
	}
	require.NoError(t, writer.PutCard(t.Context(), card("last")))
	late := watch(t, kittest.Bus(t, srv))
	want := map[string]uint32{"last": 0}
	for i := range 40 {
		want["w"+strconv.Itoa(i%10)] = uint32(i)
		if i%7 == 0 {
			delete(want, "w"+strconv.Itoa(i%10))
		}
	}
	for name, updates := range map[string]<-chan bus.CardUpdate{"early": early, "late": late} {
		got := map[string]uint32{}
		until(t, updates, func(u bus.CardUpdate) bool {
			switch {
			case u.Card != nil:
				got[u.WorkerID] = u.Card.GetMaxSequences()
			case u.Gone:
				delete(got, u.WorkerID)
			}
			return u.WorkerID == "last"
		})
		require.Equal(t, want, got, name)
	}
}

// TestForeignEntriesAreIgnored: what is no card, or another worker's card, does not reach watchers.
func TestForeignEntriesAreIgnored(t *testing.T) {
	t.Parallel()
	srv := kittest.NATS(t)
	b := kittest.Bus(t, srv)
	require.NoError(t, b.PutCard(t.Context(), card("real")))
	kv := registry(t, srv)
	_, err := kv.Put(t.Context(), "noise", []byte{0xff, 0xff, 0xff})
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "impostor", marshal(t, &workerv1.WorkerCard{WorkerId: "real", Version: "forged"}))
	require.NoError(t, err)
	updates := watch(t, b)
	u := kittest.Recv(t, updates)
	require.Equal(t, "real", u.WorkerID)
	require.Empty(t, u.Card.GetVersion())
	require.True(t, kittest.Recv(t, updates).Synced)
}

// TestWatchEndsAfterItsConnection: a watch whose connection was closed first leaves no goroutine (TestMain looks).
func TestWatchEndsAfterItsConnection(t *testing.T) {
	t.Parallel()
	b := kittest.Bus(t, kittest.NATS(t))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	synced := make(chan struct{}, 8)
	go func() {
		done <- b.WatchCards(ctx, func(u bus.CardUpdate) {
			if u.Synced {
				synced <- struct{}{}
			}
		})
	}()
	kittest.Recv(t, synced)
	require.NoError(t, b.Close(t.Context()))
	cancel()
	require.NoError(t, kittest.Recv(t, done))
}
