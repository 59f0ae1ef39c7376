package publish_test

import (
	"net"
	"strings"
	"testing"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/kvevent"
)

// A libzmq peer with heartbeats sends PING commands at any time and gives the connection up without a PONG. Answers
// must not fall into the middle of a message.
func TestHeartbeatsAreAnsweredBetweenMessages(t *testing.T) {
	t.Parallel()
	p := open(t, options())
	live, _ := p.Endpoints()
	c, err := net.Dial("tcp", strings.TrimPrefix(local(live), "tcp://"))
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	peer, err := zmq4.Open(c, null.Security(), zmq4.Sub, nil, false, func(*zmq4.Conn) {})
	require.NoError(t, err)
	require.NoError(t, peer.SendMsg(zmq4.NewMsg([]byte{1})))
	for p.Subscribers() == 0 {
		require.NoError(t, t.Context().Err())
	}
	const rounds = 200
	go func() {
		for range rounds {
			if peer.SendCmd(zmq4.CmdPing, []byte{0, 10}) != nil {
				return
			}
		}
	}()
	long := batch(1) // longer than 255 bytes: its frame has a long header
	long.Events[0].Tokens = make([]uint32, 1000)
	for i := range rounds {
		if i%2 == 0 {
			p.Publish(long)
			continue
		}
		p.Publish(batch(2))
	}
	pongs, messages := 0, 0
	for pongs < rounds || messages < rounds {
		msg, err := peer.RecvMsg()
		require.NoError(t, err)
		if msg.Type == zmq4.CmdMsg {
			pongs++
			continue
		}
		require.Len(t, msg.Frames, 3)
		want := long
		if messages%2 == 1 {
			want = batch(2)
		}
		require.Equal(t, kvevent.Append(nil, want, kvevent.Options{}), msg.Frames[2])
		messages++
	}
	require.Equal(t, 1, p.Subscribers(), "a heartbeat is no subscription")
}

func TestFullQueueLosesMessages(t *testing.T) {
	t.Parallel()
	o := options()
	o.HWM = 1
	p := open(t, o)
	live, _ := p.Endpoints()
	c, err := net.Dial("tcp", strings.TrimPrefix(local(live), "tcp://"))
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	peer, err := zmq4.Open(c, null.Security(), zmq4.Sub, nil, false, func(*zmq4.Conn) {})
	require.NoError(t, err)
	require.NoError(t, peer.SendMsg(zmq4.NewMsg([]byte{1})))
	for p.Subscribers() == 0 {
		require.NoError(t, t.Context().Err())
	}
	big := batch(1)
	big.Events[0].Tokens = make([]uint32, 1<<20)
	const sent = 64 // a megabyte each: more than the sockets' buffers take while nobody reads
	for range sent {
		p.Publish(big)
	}
	require.Len(t, ask(t, p, 0, false), sent, "replay has them all")
	p.Close()
	got := 0
	for {
		if _, err := peer.RecvMsg(); err != nil {
			break
		}
		got++
	}
	require.Less(t, got, sent)
}
