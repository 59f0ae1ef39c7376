package bus_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/bus/embed"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

// valve passes connections on to a server, and can hold back what they carry without closing them.
type valve struct {
	url  string
	open sync.RWMutex // held for writing while shut
}

// startValve listens in front of a server for the length of the test.
func startValve(t *testing.T, server string) *valve {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	v := &valve{url: "nats://" + l.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", strings.TrimPrefix(server, "nats://"))
			if err != nil {
				_ = c.Close()
				continue
			}
			wg.Go(func() { v.carry(c, back) })
			wg.Go(func() { v.carry(back, c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return v
}

func (v *valve) carry(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		v.open.RLock()
		v.open.RUnlock() //nolint:staticcheck // it waits until the valve is open
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// heard is a log that tells of one message.
type heard struct {
	word string
	ch   chan struct{}
}

func (h heard) Write(p []byte) (int, error) {
	if strings.Contains(string(p), h.word) {
		select {
		case h.ch <- struct{}{}:
		default:
		}
	}
	return len(p), nil
}

// TestMuteServerKeepsCards: a NATS that keeps the connection and says nothing is no death of the workers. Once it answers
// again, leases end as ever.
func TestMuteServerKeepsCards(t *testing.T) {
	t.Parallel()
	srv := kittest.NATSWith(t, embed.Config{Listen: "127.0.0.1:0"})
	v := startValve(t, srv.URL())
	connect := func(url string, log *slog.Logger) *bus.Bus {
		b, err := bus.Connect(t.Context(), bus.Config{URL: url, CardTTL: 300 * time.Millisecond}, bus.Deps{Log: log})
		require.NoError(t, err)
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		return b
	}
	mute := heard{"NATS does not answer", make(chan struct{}, 1)}
	updates := watch(t, connect(v.url, slog.New(slog.NewTextHandler(mute, nil))))
	adapter := connect(srv.URL(), kittest.Logger(t))
	stop := keep(t, adapter, "w1")
	kittest.Eventually(t, func() error { return adapter.PutCard(t.Context(), card("w0")) })
	until(t, updates, isGone("w0")) // the time after a connect in which no lease ends is over
	v.open.Lock()
	opened := sync.OnceFunc(v.open.Unlock)
	t.Cleanup(opened) // before the valve's own end, which waits for what it carries
	kittest.Recv(t, mute.ch)
	for len(updates) > 0 {
		require.False(t, (<-updates).Gone, "nobody knows")
	}
	opened()
	until(t, updates, func(u bus.CardUpdate) bool {
		require.False(t, u.Gone, "it was there all the time")
		return isCard("w1")(u)
	})
	stop()
	until(t, updates, isGone("w1"))
}
