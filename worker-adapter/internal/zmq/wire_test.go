package zmq

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sockets are two ends of a loopback connection: unlike a pipe it takes what nobody reads yet.
func sockets(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	a, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	b, err = l.Accept()
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return a, b
}

// pair is two ends of a connection after their handshakes.
func pair(t *testing.T) (*conn, *Peer) {
	t.Helper()
	a, b := sockets(t)
	peers := make(chan *Peer, 1)
	go func() {
		p, err := Accept(b, "PUB")
		if err != nil {
			p = nil
		}
		peers <- p
	}()
	c, err := open(a, "SUB")
	require.NoError(t, err)
	p := <-peers
	require.NotNil(t, p)
	t.Cleanup(func() { _, _ = c.Close(), p.Close() })
	return c, p
}

// TestFrames sends frames of every length class and gets them back whole, heartbeats in between answered.
func TestFrames(t *testing.T) {
	t.Parallel()
	c, p := pair(t)
	rows := [][][]byte{
		{nil},
		{[]byte("a"), nil, []byte("b")},
		{bytes.Repeat([]byte("x"), 255), bytes.Repeat([]byte("y"), 256)},
		{bytes.Repeat([]byte("z"), 3<<20)},
	}
	pong := make(chan []byte, 1)
	sent := make(chan error, 1)
	go func() {
		var err error
		for _, frames := range rows {
			err = errors.Join(err, p.Ping("ctx"))
			var head [2]byte
			_, e := io.ReadFull(p.c.in, head[:])
			body := make([]byte, head[1])
			_, e2 := io.ReadFull(p.c.in, body)
			pong <- body
			err = errors.Join(err, e, e2, p.Send(frames...))
		}
		sent <- err
	}()
	var m Message
	for _, want := range rows {
		require.NoError(t, c.read(&m))
		require.Equal(t, "\x04PONGctx", string(<-pong))
		require.Len(t, m.Frames, len(want))
		for i := range want {
			require.True(t, bytes.Equal(want[i], m.Frames[i]), "frame %d", i)
		}
	}
	require.NoError(t, <-sent)
}

// TestHandshakeRefused: what is no ZMTP 3 peer with NULL security is refused, at the greeting or the READY.
func TestHandshakeRefused(t *testing.T) {
	t.Parallel()
	greeting := func(change func([]byte)) []byte {
		g := make([]byte, 64)
		g[0], g[9], g[10] = 0xff, 0x7f, 3
		copy(g[12:], "NULL")
		change(g)
		return g
	}
	good := greeting(func([]byte) {})
	rows := []struct {
		name string
		says []byte
	}{
		{"HTTP", []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n")},
		{"ZMTP 2", greeting(func(g []byte) { g[10] = 1 })},
		{"CURVE", greeting(func(g []byte) { copy(g[12:], "CURVE") })},
		{"nothing", nil},
		{"no READY", append(append([]byte(nil), good...), 0, 1, 'x')},
		{"ERROR", append(append([]byte(nil), good...), "\x04\x07\x05ERROR\x00"...)},
		{"READY of a gigabyte", append(append([]byte(nil), good...), 6, 0, 0, 0, 0, 0x40, 0, 0, 0)},
		{"cut READY", append(append([]byte(nil), good...), 4, 20, 5, 'R')},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a, b := sockets(t)
			_, err := b.Write(row.says)
			require.NoError(t, err)
			require.NoError(t, b.(*net.TCPConn).CloseWrite())
			_, err = open(a, "SUB")
			require.Error(t, err)
			require.NoError(t, errors.Join(a.Close(), b.Close()))
		})
	}
}

// TestBounds: lengths that a peer only claims cost nothing, and end the connection.
func TestBounds(t *testing.T) {
	t.Parallel()
	long := func(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{flagLong}, n) }
	rows := []struct {
		name string
		sent []byte
		want error
	}{
		{"frame of 2^63", long(1 << 63), ErrProtocol},
		{"frame over the limit", long(MaxMessageBytes + 1), ErrProtocol},
		{"claimed and not sent", append(long(MaxMessageBytes), "abc"...), io.ErrUnexpectedEOF},
		{"too many frames", bytes.Repeat([]byte{flagMore, 0}, maxFrames+1), ErrProtocol},
		{"cut head", []byte{flagLong, 0, 0}, io.ErrUnexpectedEOF},
		{"end", nil, io.EOF},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c, p := pair(t)
			_, err := p.c.Write(row.sent)
			require.NoError(t, err)
			require.NoError(t, p.c.Conn.(*net.TCPConn).CloseWrite())
			var m Message
			require.ErrorIs(t, c.read(&m), row.want)
			require.Less(t, cap(m.buf), 4<<20)
		})
	}
}

// TestReplyFrames: a reply is read by its shape, whatever version sent it.
func TestReplyFrames(t *testing.T) {
	t.Parallel()
	seq := binary.BigEndian.AppendUint64(nil, 9)
	end := bytes.Repeat([]byte{0xff}, 8)
	rows := []struct {
		name    string
		frames  [][]byte
		end, ok bool
	}{
		{"with topic", [][]byte{nil, []byte("t"), seq, []byte("p")}, false, true},
		{"without topic", [][]byte{nil, seq, []byte("p")}, false, true},
		{"end with topic", [][]byte{nil, nil, end, nil}, true, true},
		{"end without topic", [][]byte{nil, end, nil}, true, true},
		{"no delimiter", [][]byte{[]byte("x"), seq, []byte("p")}, false, false},
		{"short number", [][]byte{nil, []byte("123"), []byte("p")}, false, false},
		{"one frame", [][]byte{nil}, false, false},
	}
	for _, row := range rows {
		u, end, ok := replayed(row.frames)
		require.Equal(t, row.end, end, row.name)
		require.Equal(t, row.ok, ok, row.name)
		if ok && !end {
			require.EqualValues(t, 9, u.Seq, row.name)
		}
	}
}

// TestReplayCut: a replay that ends without its marker says so, and a consumer can end it.
func TestReplayCut(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for range 2 {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			p, err := Accept(nc, "ROUTER")
			if err != nil {
				return
			}
			_, _ = p.Recv()
			_ = p.Send(nil, binary.BigEndian.AppendUint64(nil, 0), []byte("p"))
			_ = p.Close()
		}
	}()
	endpoint := "tcp://" + l.Addr().String()
	n := 0
	err = Replay(t.Context(), Request{Endpoint: endpoint}, func(Update) error { n++; return nil })
	require.Error(t, err)
	require.Equal(t, 1, n)
	stop := errors.New("enough")
	require.ErrorIs(t, Replay(t.Context(), Request{Endpoint: endpoint}, func(Update) error { return stop }), stop)
	require.NoError(t, l.Close())
	<-served
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, Replay(ctx, Request{Endpoint: endpoint}, nil))
}

// FuzzRead: no bytes make reading panic or take more memory than they are.
func FuzzRead(f *testing.F) {
	f.Add([]byte{0, 1, 'x'})
	f.Add([]byte{flagMore, 0, flagLong, 0, 0, 0, 0, 0, 0, 0, 2, 'a', 'b'})
	f.Add(append([]byte{flagCommand, 9}, "\x04PING\x00\x0ahi"...))
	f.Add([]byte(strings.Repeat("\x01\x00", 40)))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &conn{Conn: discard{}, in: bufio.NewReader(bytes.NewReader(b))}
		var m Message
		for c.read(&m) == nil {
			total := 0
			for _, fr := range m.Frames {
				total += len(fr)
			}
			require.LessOrEqual(t, total, len(b))
		}
	})
}

// discard is a connection that takes all that is written.
type discard struct{ net.Conn }

func (discard) Write(b []byte) (int, error)      { return len(b), nil }
func (discard) SetDeadline(time.Time) error      { return nil }
func (discard) SetReadDeadline(time.Time) error  { return nil }
func (discard) SetWriteDeadline(time.Time) error { return nil }
