package zmq

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

// greeting and readyCommand are what a well-behaved publisher says first.
func greeting() []byte {
	g := make([]byte, 64)
	g[0], g[9], g[10] = 0xff, 0x7f, 3
	copy(g[12:], "NULL")
	return g
}

func readyCommand() []byte { return []byte("\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB") }

// frames is one message on the wire.
func frames(parts ...string) (out []byte) {
	for i, p := range parts {
		flags := byte(0)
		if i < len(parts)-1 {
			flags = flagMore
		}
		out = appendFrame(out, flags, []byte(p))
	}
	return out
}

// seen is a Handler that keeps what a subscription says.
type seen struct {
	connected chan struct{}
	ended     chan error
	updates   chan uint64
}

func (s *seen) Connected()             { s.connected <- struct{}{} }
func (s *seen) Disconnected(err error) { s.ended <- err }
func (s *seen) Updated(u Update)       { s.updates <- u.Seq }

const eight = "\x00\x00\x00\x00\x00\x00\x00"

// TestHostilePublishers: whatever the port says, the subscription passes on whole batches only, ends a connection that
// breaks the rules, and hears the next one.
func TestHostilePublishers(t *testing.T) {
	t.Parallel()
	long := func(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{flagLong | flagMore}, n) }
	hello := append(greeting(), readyCommand()...)
	rows := []struct {
		name    string
		says    [][]byte
		updates []uint64
		refused bool // before the handshake is over
	}{
		{"HTTP", [][]byte{[]byte("HTTP/1.1 400 Bad Request\r\nServer: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" + eight)}, nil, true},
		{"garbage for a greeting", [][]byte{bytes.Repeat([]byte{0xa5}, 200)}, nil, true},
		{"half a greeting", [][]byte{greeting()[:30]}, nil, true},
		{"READY of 4 GB", [][]byte{greeting(), {6, 0, 0, 0, 1, 0, 0, 0, 0}}, nil, true},
		{"a message for READY", [][]byte{greeting(), frames("t", eight+"\x01", "p")}, nil, true},
		{"frame of 2^63", [][]byte{hello, long(1 << 63)}, nil, false},
		{"frame beyond the limit", [][]byte{hello, long(MaxMessageBytes + 1)}, nil, false},
		{"endless multipart", [][]byte{hello, bytes.Repeat([]byte{flagMore, 1, 'x'}, 10_000)}, nil, false},
		{"a command of a megabyte", [][]byte{hello, append([]byte{flagCommand | flagLong, 0, 0, 0, 0, 0, 0x10, 0, 0}, make([]byte, 1<<20)...)}, nil, false},
		{"half a message", [][]byte{hello, frames("t", eight+"\x01", "payload")[:14]}, nil, false},
		{"half a message after a whole one", [][]byte{hello, frames("t", eight+"\x01", "p"), frames("t", eight+"\x02", "p")[:5]}, []uint64{1}, false},
		{"too few, too many, wrong sizes", [][]byte{
			hello, frames("t"), frames("t", eight+"\x01"), frames("t", eight+"\x01", "p", "q"), frames("t", "short", "p"),
			frames("", "", ""), frames("t", eight+"\x01\x01", "p"), frames("t", eight+"\x07", "p"),
		}, []uint64{7}, false},
		{"commands that nobody knows", [][]byte{hello, []byte("\x04\x05\x04WHAT"), []byte("\x04\x00"), frames("t", eight+"\x03", "p")}, []uint64{3}, false},
		{"heartbeats within a message", [][]byte{
			hello, frames("t", "x")[:3], []byte("\x04\x09\x04PING\x00\x0ahi"), frames(eight+"\x04", "p"),
		}, []uint64{4}, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			s := &seen{make(chan struct{}, 8), make(chan error, 64), make(chan uint64, 64)}
			done := make(chan error, 1)
			go func() { done <- Subscribe(t.Context(), Subscription{Endpoint: "tcp://" + l.Addr().String()}, s) }()
			nc, err := l.Accept()
			require.NoError(t, err)
			for _, part := range row.says {
				_, _ = nc.Write(part) // it may be refused before it is all said
			}
			_ = nc.(*net.TCPConn).CloseWrite() // as above
			require.Error(t, kittest.Recv(t, s.ended))
			_ = nc.Close()
			require.Equal(t, row.refused, len(s.connected) == 0)
			for _, want := range row.updates {
				require.Equal(t, want, kittest.Recv(t, s.updates))
			}
			require.Empty(t, s.updates)
			nc, err = l.Accept()
			require.NoError(t, err)
			good, err := Accept(nc, "PUB")
			require.NoError(t, err)
			require.NoError(t, good.Send([]byte("t"), []byte(eight+"\x09"), []byte("p")))
			require.EqualValues(t, 9, kittest.Recv(t, s.updates))
			require.NoError(t, errors.Join(good.Close(), l.Close()))
		})
	}
}

// TestSlowPeers: a peer that stops within a message, or does not read what it asked for, is left; one that is silent
// between messages is not. Time is the bubble's.
func TestSlowPeers(t *testing.T) {
	t.Parallel()
	whole := frames("t", "12345678", "payload")
	ping := []byte("\x04\x09\x04PING\x00\x0ahi")
	rows := []struct {
		name  string
		says  []byte
		pause time.Duration // before each byte
		reads bool          // the peer takes our answers
		over  time.Duration // when the connection ends; 0 for a message that comes
	}{
		{"silence, then a message", whole, 0, true, 0},
		{"a byte a second", whole, time.Second, true, 0},
		{"half a message", whole[:9], 0, true, messageTimeout},
		{"a byte in four seconds", whole, 4 * time.Second, true, messageTimeout},
		{"pings, and nobody reads the answers", bytes.Repeat(ping, 3), 0, false, writeTimeout},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a, b := net.Pipe()
				said := make(chan struct{})
				go func() {
					defer close(said)
					defer b.Close()
					time.Sleep(time.Hour)
					for i := range row.says {
						time.Sleep(row.pause)
						if _, err := b.Write(row.says[i : i+1]); err != nil {
							return
						}
					}
					if row.reads {
						_, _ = io.Copy(io.Discard, b)
					}
				}()
				c := &conn{Conn: a, in: bufio.NewReader(a)}
				var m Message
				began := time.Now().Add(time.Hour)
				err := c.read(&m)
				took := time.Since(began)
				require.NoError(t, a.Close())
				<-said
				if row.over == 0 {
					require.NoError(t, err)
					require.Len(t, m.Frames, 3)
					return
				}
				var late net.Error
				require.ErrorAs(t, err, &late)
				require.True(t, late.Timeout())
				require.InDelta(t, row.over, took, float64(10*time.Second), "the bubble's clock")
			})
		})
	}
}

// FuzzPeer: no bytes, from the greeting on, make a connection panic or take more memory than they are.
func FuzzPeer(f *testing.F) {
	f.Add(append(append(greeting(), readyCommand()...), frames("t", eight+"\x01", "p")...))
	f.Add(append(greeting(), 6, 0, 0, 0, 1, 0, 0, 0, 0))
	f.Add([]byte(strings.Repeat("\xff\x00", 40)))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := open(&scripted{in: bytes.NewReader(b)}, "SUB")
		if err != nil {
			return
		}
		var m Message
		for c.read(&m) == nil {
			_, _, _ = replayed(m.Frames)
		}
		require.Less(t, cap(m.buf), 4*len(b)+2<<20)
	})
}

// scripted is a connection whose peer has said everything already and takes all answers.
type scripted struct {
	discard
	in io.Reader
}

func (s *scripted) Read(b []byte) (int, error) { return s.in.Read(b) }
