package publish_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/go-zeromq/zmq4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/kvevent"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/publish"
)

func TestMain(m *testing.M) {
	// The tests' own SUB and DEALER sockets are go-zeromq's, whose readers end some time after Close.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/go-zeromq/zmq4.(*socket).connReaper"),
		goleak.IgnoreAnyFunction("github.com/go-zeromq/zmq4.(*qreader).listen"),
		goleak.IgnoreAnyFunction("github.com/go-zeromq/zmq4.(*Conn).read"))
}

func options() publish.Options {
	return publish.Options{
		Endpoint: "tcp://*:0", ReplayEndpoint: "tcp://*:0", BufferSteps: 100, HWM: 1000, Topic: "kv@w1", ReplayTopic: true,
	}
}

func open(t *testing.T, o publish.Options) *publish.Publisher {
	t.Helper()
	p, err := publish.Start(o)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func local(endpoint string) string { return strings.Replace(endpoint, "*", "127.0.0.1", 1) }

// batch is a small batch that names its number in its block size.
func batch(n int) *kvevent.Batch {
	return &kvevent.Batch{Timestamp: 1, Events: []kvevent.Event{{Hashes: make([]kvevent.Hash, 1), BlockSize: n}}}
}

// subscribe connects a SUB and returns when the publisher knows its subscription.
func subscribe(t *testing.T, p *publish.Publisher, prefix string) zmq4.Socket {
	t.Helper()
	live, _ := p.Endpoints()
	before := p.Subscribers()
	sub := zmq4.NewSub(t.Context())
	t.Cleanup(func() { _ = sub.Close() })
	require.NoError(t, sub.Dial(local(live)))
	require.NoError(t, sub.SetOption(zmq4.OptionSubscribe, prefix))
	for p.Subscribers() == before {
		require.NoError(t, t.Context().Err())
	}
	return sub
}

func receive(t *testing.T, s zmq4.Socket) (topic string, seq uint64, payload []byte) {
	t.Helper()
	msg, err := s.Recv()
	require.NoError(t, err)
	require.Len(t, msg.Frames, 3)
	require.Len(t, msg.Frames[1], 8)
	return string(msg.Frames[0]), binary.BigEndian.Uint64(msg.Frames[1]), msg.Frames[2]
}

func TestSubscribersGetTopicNumberAndPayload(t *testing.T) {
	t.Parallel()
	p := open(t, options())
	all, prefix := subscribe(t, p, ""), subscribe(t, p, "kv@")
	for i := range 3 {
		p.Publish(batch(i))
	}
	p.Publish(&kvevent.Batch{}) // nothing happened: nothing is sent, no number is used
	p.Publish(batch(3))
	for _, s := range []zmq4.Socket{all, prefix} {
		for i := range 4 {
			topic, seq, payload := receive(t, s)
			require.Equal(t, "kv@w1", topic)
			require.EqualValues(t, i, seq)
			require.Equal(t, kvevent.Append(nil, batch(i), kvevent.Options{}), payload)
		}
	}
}

func TestOtherTopicsAreNotSent(t *testing.T) {
	t.Parallel()
	p := open(t, options())
	other := subscribe(t, p, "kv@other")
	p.Publish(batch(0))
	require.NoError(t, other.SetOption(zmq4.OptionSubscribe, "kv@w"))
	first := make(chan uint64, 1)
	go func() {
		msg, err := other.Recv()
		if err == nil {
			first <- binary.BigEndian.Uint64(msg.Frames[1])
		}
	}()
	for i := 1; ; i++ { // until the new subscription is in force
		p.Publish(batch(i))
		select {
		case seq := <-first:
			require.Positive(t, seq, "batch 0 was of no subscribed topic")
			return
		default:
		}
	}
}

func TestDroppedMessagesKeepTheirNumbers(t *testing.T) {
	t.Parallel()
	p := open(t, options())
	sub := subscribe(t, p, "")
	require.NoError(t, p.SetFaults(publish.Faults{DropOneIn: 3}))
	for i := range 9 {
		p.Publish(batch(i))
	}
	var got []uint64
	for range 6 {
		_, seq, _ := receive(t, sub)
		got = append(got, seq)
	}
	require.Equal(t, []uint64{0, 1, 3, 4, 6, 7}, got)
	require.Len(t, ask(t, p, 0, false), 9, "replay has what was lost")
}

func TestStoppedPublisherUsesNoNumbers(t *testing.T) {
	t.Parallel()
	p := open(t, options())
	sub := subscribe(t, p, "")
	p.Publish(batch(0))
	require.NoError(t, p.SetFaults(publish.Faults{Stopped: true}))
	p.Publish(batch(1))
	require.NoError(t, p.SetFaults(publish.Faults{}))
	p.Publish(batch(2))
	for i, want := range []int{0, 2} {
		_, seq, payload := receive(t, sub)
		require.EqualValues(t, i, seq)
		require.Equal(t, kvevent.Append(nil, batch(want), kvevent.Options{}), payload)
	}
}

// reply is one message of a replay without its delimiter.
type reply struct {
	frames int
	topic  string
	seq    uint64
}

// ask replays from a number on; the end marker is checked and left out.
func ask(t *testing.T, p *publish.Publisher, from uint64, old bool) []reply {
	t.Helper()
	_, at := p.Endpoints()
	d := zmq4.NewDealer(t.Context())
	defer func() { _ = d.Close() }()
	require.NoError(t, d.Dial(local(at)))
	require.NoError(t, d.Send(zmq4.NewMsgFrom(nil, binary.BigEndian.AppendUint64(nil, from))))
	return collect(t, d, old)
}

func collect(t *testing.T, d zmq4.Socket, old bool) []reply {
	t.Helper()
	var out []reply
	for {
		msg, err := d.Recv()
		require.NoError(t, err)
		f := msg.Frames
		require.Empty(t, f[0])
		r := reply{frames: len(f), seq: binary.BigEndian.Uint64(f[len(f)-2])}
		if !old {
			require.Len(t, f, 4)
			r.topic = string(f[1])
		} else {
			require.Len(t, f, 3)
		}
		if r.seq == 1<<64-1 {
			require.Empty(t, f[len(f)-1])
			require.Empty(t, r.topic)
			return out
		}
		out = append(out, r)
	}
}

func TestReplayStartsWhereItIsAsked(t *testing.T) {
	t.Parallel()
	o := options()
	o.BufferSteps = 5
	p := open(t, o)
	for i := range 8 {
		p.Publish(batch(i))
	}
	for _, row := range []struct {
		name  string
		from  uint64
		first uint64
		count int
	}{
		{"older than the buffer", 0, 3, 5},
		{"inside", 6, 6, 2},
		{"last", 7, 7, 1},
		{"past the end", 100, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := ask(t, p, row.from, false)
			require.Len(t, got, row.count)
			for i, r := range got {
				require.Equal(t, row.first+uint64(i), r.seq)
				require.Equal(t, "kv@w1", r.topic)
			}
		})
	}
}

func TestOldReplayHasNoTopicFrame(t *testing.T) {
	t.Parallel()
	o := options()
	o.ReplayTopic = false
	p := open(t, o)
	p.Publish(batch(0))
	require.Equal(t, []reply{{frames: 3}}, ask(t, p, 0, true))
}

func TestOddReplayRequests(t *testing.T) {
	t.Parallel()
	p := open(t, options())
	for i := range 3 {
		p.Publish(batch(i))
	}
	_, at := p.Endpoints()
	d := zmq4.NewDealer(t.Context())
	defer func() { _ = d.Close() }()
	require.NoError(t, d.Dial(local(at)))
	// What has no delimiter, or a frame too many, gets no answer: the first one is that of the last request.
	require.NoError(t, d.Send(zmq4.NewMsgFrom(make([]byte, 8))))
	require.NoError(t, d.Send(zmq4.NewMsgFrom(nil, make([]byte, 8), []byte("x"))))
	require.NoError(t, d.Send(zmq4.NewMsgFrom(nil, []byte{0, 0, 0, 2}))) // four bytes are a number too
	require.Equal(t, []reply{{frames: 4, topic: "kv@w1", seq: 2}}, collect(t, d, false))
	require.NoError(t, d.Send(zmq4.NewMsgFrom(nil, nil))) // and so is nothing
	require.Len(t, collect(t, d, false), 3)
}

func TestRestartKeepsPortsAndForgetsTheRest(t *testing.T) {
	t.Parallel()
	p := open(t, options())
	live, again := p.Endpoints()
	p.Publish(batch(0))
	p.Publish(batch(1))
	require.NoError(t, p.Restart())
	liveNow, againNow := p.Endpoints()
	require.Equal(t, [2]string{live, again}, [2]string{liveNow, againNow})
	sub := subscribe(t, p, "")
	p.Publish(batch(7))
	_, seq, payload := receive(t, sub)
	require.Zero(t, seq)
	require.Equal(t, kvevent.Append(nil, batch(7), kvevent.Options{}), payload)
	require.Len(t, ask(t, p, 0, false), 1)
}

func TestEndpointsThatAreNotBound(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	o := options()
	o.ReplayEndpoint = ""
	o.Endpoint = fmt.Sprintf("tcp://%s", l.Addr())
	p := open(t, o)
	c, err := l.Accept() // it is the publisher who connects
	require.NoError(t, err)
	require.NoError(t, c.Close())
	live, replay := p.Endpoints()
	require.Equal(t, o.Endpoint, live)
	require.Empty(t, replay)
	p.Publish(batch(0)) // to nobody, without a complaint
}

func TestWrongBindClosesThePort(t *testing.T) {
	t.Parallel()
	p := open(t, options())
	live, _ := p.Endpoints()
	at := strings.TrimPrefix(local(live), "tcp://")
	require.NoError(t, p.SetFaults(publish.Faults{WrongBind: true}))
	_, err := net.Dial("tcp", at)
	require.Error(t, err)
	require.NoError(t, p.SetFaults(publish.Faults{}))
	sub := subscribe(t, p, "")
	p.Publish(batch(0))
	_, seq, _ := receive(t, sub)
	require.Zero(t, seq)
}

// TestBindHostNarrowsTheStar: "*" is bound at one interface, and still told as it was configured.
func TestBindHostNarrowsTheStar(t *testing.T) {
	t.Parallel()
	o := options()
	o.BindHost = "127.0.0.2"
	p := open(t, o)
	live, replay := p.Endpoints()
	for _, endpoint := range []string{live, replay} {
		require.True(t, strings.HasPrefix(endpoint, "tcp://*:"), endpoint)
		port := endpoint[len("tcp://*"):]
		c, err := net.Dial("tcp", "127.0.0.2"+port)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		_, err = net.Dial("tcp", "127.0.0.1"+port)
		require.Error(t, err, "another interface")
	}
}

func TestBusyPortIsAnError(t *testing.T) {
	t.Parallel()
	p := open(t, options())
	live, again := p.Endpoints()
	o := options()
	o.Endpoint = live
	_, err := publish.Start(o)
	require.ErrorContains(t, err, "bind event endpoint")
	o = options()
	o.ReplayEndpoint = again
	_, err = publish.Start(o)
	require.ErrorContains(t, err, "bind replay endpoint")
}

func TestPeerThatIsNoZeroMQIsIgnored(t *testing.T) {
	t.Parallel()
	p := open(t, options())
	live, _ := p.Endpoints()
	c, err := net.Dial("tcp", strings.TrimPrefix(local(live), "tcp://"))
	require.NoError(t, err)
	_, err = c.Write([]byte("GET / HTTP/1.1\r\n\r\n" + strings.Repeat("x", 64)))
	require.NoError(t, err)
	sub := subscribe(t, p, "")
	p.Publish(batch(0))
	_, seq, _ := receive(t, sub)
	require.Zero(t, seq)
	require.NoError(t, c.Close())
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, endpoint string
		binds          bool
		ok             bool
	}{
		{"star", "tcp://*:5557", true, true},
		{"IPv6 any", "tcp://[::]:5557", true, true},
		{"every interface by number", "tcp://0.0.0.0:5557", false, true},
		{"loopback", "tcp://127.0.0.1:5557", false, true},
		{"unix", "ipc:///tmp/kv", true, true},
		{"ephemeral by star", "tcp://*:*", true, true},
		{"no port", "tcp://*", true, false},
		{"no scheme", "127.0.0.1:1", false, false},
		{"port out of range", "tcp://*:70000", true, false},
		{"unix without a path", "ipc://", true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.binds, publish.Binds(row.endpoint))
			require.Equal(t, row.ok, publish.CheckEndpoint(row.endpoint) == nil)
		})
	}
	for _, row := range []struct {
		name, endpoint string
		rank           int
		want           string
	}{
		{"rank 0", "ipc:///tmp/kv", 0, "ipc:///tmp/kv"},
		{"rank 2", "tcp://*:5557", 2, "tcp://*:5559"},
		{"ephemeral", "tcp://*:0", 3, "tcp://*:0"},
		{"none", "", 1, ""},
		{"unix cannot", "ipc:///tmp/kv", 1, "error"},
	} {
		t.Run("for "+row.name, func(t *testing.T) {
			t.Parallel()
			got, err := publish.ForRank(row.endpoint, row.rank)
			if row.want == "error" {
				require.ErrorContains(t, err, "must contain 'inproc' or 'tcp'")
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
}
