package zmq_test

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"testing"

	zmq4 "github.com/go-zeromq/zmq4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/services/kit/kittest"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq/zmqtest"
)

// TestMain looks for leaks but for one of the other implementation's: its PUB socket keeps a writer after Close.
func TestMain(m *testing.M) {
	kittest.Leak(m, goleak.IgnoreAnyFunction("github.com/go-zeromq/zmq4.(*pubMWriter).run"))
}

// heard is a Handler that passes everything on.
type heard struct {
	connected chan struct{}
	ended     chan error
	updates   chan zmq.Update
}

func newHeard() *heard {
	return &heard{make(chan struct{}, 100), make(chan error, 100), make(chan zmq.Update, 10_000)}
}

func (h *heard) Connected()             { h.connected <- struct{}{} }
func (h *heard) Disconnected(err error) { h.ended <- err }
func (h *heard) Updated(u zmq.Update) {
	h.updates <- zmq.Update{Seq: u.Seq, Payload: append([]byte(nil), u.Payload...)}
}

// subscribe hears an endpoint for the length of the test.
func subscribe(t *testing.T, sub zmq.Subscription) *heard {
	t.Helper()
	h := newHeard()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- zmq.Subscribe(ctx, sub, h) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return h
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// TestForeignPublisher hears a PUB socket of another implementation, through a topic filter.
func TestForeignPublisher(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pub := zmq4.NewPub(ctx)
	require.NoError(t, pub.Listen("tcp://127.0.0.1:0"))
	h := subscribe(t, zmq.Subscription{Endpoint: "tcp://" + pub.Addr().String(), Topic: "kv@"})
	kittest.Recv(t, h.connected)
	long := []byte(strings.Repeat("x", 70_000))
	kittest.Eventually(t, func() error { // a PUB socket drops what comes before the subscription
		require.NoError(t, pub.SendMulti(zmq4.NewMsgFrom([]byte("other"), number(7), []byte("no"))))
		require.NoError(t, pub.SendMulti(zmq4.NewMsgFrom([]byte("kv@one"), number(8), long)))
		if len(h.updates) == 0 {
			return context.DeadlineExceeded
		}
		return nil
	})
	u := kittest.Recv(t, h.updates)
	require.EqualValues(t, 8, u.Seq)
	require.Equal(t, long, u.Payload)
	cancel()
	_ = pub.Close() // as TestForeignRouter's: an ended connection is not this test's matter
}

// TestForeignRouter replays from a ROUTER socket of another implementation, in both framings.
func TestForeignRouter(t *testing.T) {
	t.Parallel()
	for _, topic := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		router := zmq4.NewRouter(ctx)
		require.NoError(t, router.Listen("tcp://127.0.0.1:0"))
		served := make(chan error, 1)
		go func() {
			msg, err := router.Recv()
			if err != nil {
				served <- err
				return
			}
			reply := func(seq uint64, payload string) {
				frames := [][]byte{msg.Frames[0], {}, []byte("t"), number(seq), []byte(payload)}
				if !topic {
					frames = append(frames[:2], frames[3:]...)
				}
				if err == nil {
					err = router.SendMulti(zmq4.NewMsgFrom(frames...))
				}
			}
			start := binary.BigEndian.Uint64(msg.Frames[2])
			reply(start, "a")
			reply(start+1, "b")
			served <- err
			reply(1<<64-1, "") // the client leaves at its header; this library then fails to write the empty body
		}()
		var got []string
		require.NoError(t, zmq.Replay(ctx, zmq.Request{Endpoint: "tcp://" + router.Addr().String(), Start: 41}, func(u zmq.Update) error {
			got = append(got, string(u.Payload))
			require.EqualValues(t, 40+len(got), u.Seq)
			return nil
		}))
		require.Equal(t, []string{"a", "b"}, got)
		require.NoError(t, <-served)
		cancel()
		_ = router.Close() // its error is of a connection that this router ended itself when the client left
	}
}

// TestReconnect: a publisher that restarts is heard again, and each end of a connection is told.
func TestReconnect(t *testing.T) {
	t.Parallel()
	p := zmqtest.Start(t)
	live, _ := p.Endpoints()
	h := subscribe(t, zmq.Subscription{Endpoint: live})
	kittest.Recv(t, h.connected)
	p.WaitSubscriber()
	p.Publish([]byte("one"))
	require.Equal(t, "one", string(kittest.Recv(t, h.updates).Payload))
	p.Restart()
	require.Error(t, kittest.Recv(t, h.ended))
	kittest.Recv(t, h.connected)
	p.WaitSubscriber()
	p.Publish([]byte("two"))
	u := kittest.Recv(t, h.updates)
	require.Equal(t, "two", string(u.Payload))
	require.Zero(t, u.Seq)
}

// TestLateListener: a subscriber may be there before its publisher.
func TestLateListener(t *testing.T) {
	t.Parallel()
	p := zmqtest.Start(t)
	live, _ := p.Endpoints()
	p.Stop()
	h := subscribe(t, zmq.Subscription{Endpoint: live})
	require.ErrorContains(t, kittest.Recv(t, h.ended), "refused")
	p.Restart()
	kittest.Recv(t, h.connected)
}

// TestBind hears a publisher that connects, over tcp's free port and over ipc.
func TestBind(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/s"
	h := subscribe(t, zmq.Subscription{Endpoint: "ipc://" + path, Bind: true})
	var nc net.Conn
	kittest.Eventually(t, func() (err error) {
		nc, err = net.Dial("unix", path)
		return err
	})
	peer, err := zmq.Accept(nc, "PUB")
	require.NoError(t, err)
	kittest.Recv(t, h.connected)
	frames, err := peer.Recv()
	require.NoError(t, err)
	require.Equal(t, [][]byte{{1}}, frames, "subscription to all topics")
	require.NoError(t, peer.Send(nil, number(3), []byte("x")))
	require.EqualValues(t, 3, kittest.Recv(t, h.updates).Seq)
	require.NoError(t, peer.Close())
	require.Error(t, kittest.Recv(t, h.ended))
	require.Error(t, zmq.Subscribe(t.Context(), zmq.Subscription{Endpoint: "tcp://nowhere", Bind: true}, h))
}

// TestEndpoints holds vLLM's own rules for endpoints.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	rows := []struct {
		endpoint string
		binds    bool
		rank2    string
		reach    string
	}{
		{"tcp://*:5557", true, "tcp://*:5559", "tcp://host:5557"},
		{"tcp://[::]:5557", true, "tcp://[::]:5559", "tcp://host:5557"},
		{"tcp://0.0.0.0:5557", false, "tcp://0.0.0.0:5559", "tcp://host:5557"},
		{"tcp://127.0.0.1:5557", false, "tcp://127.0.0.1:5559", "tcp://127.0.0.1:5557"},
		{"ipc:///tmp/kv", true, "", "ipc:///tmp/kv"},
		{"inproc://kv", true, "", "inproc://kv"},
	}
	for _, row := range rows {
		require.Equal(t, row.binds, zmq.Binds(row.endpoint), row.endpoint)
		require.Equal(t, row.reach, zmq.Reach(row.endpoint, "host"), row.endpoint)
		got, err := zmq.ForRank(row.endpoint, 2)
		require.Equal(t, row.rank2 == "", err != nil, row.endpoint)
		if err == nil {
			require.Equal(t, row.rank2, got, row.endpoint)
		}
	}
	for _, bad := range []string{"", "tcp://", "tcp://host", "udp://h:1", "5557", "ipc://"} {
		require.Error(t, zmq.Check(bad), bad)
	}
	_, err := zmq.ForRank("tcp://h:x", 1)
	require.Error(t, err)
}
