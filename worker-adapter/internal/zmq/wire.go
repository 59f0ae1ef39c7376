// Package zmq is the part of ZeroMQ that KV events need: a SUB socket that connects or binds, and a DEALER that asks a
// ROUTER for old batches. It speaks ZMTP 3.0 with the NULL mechanism over tcp and ipc.
//
// It exists because the Go libraries hide what an event stream must know (when a connection ended, that a handshake
// hangs) and trust the peer's frame lengths; docs/adr/0004-zmq-client.md has the findings.
package zmq

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	// MaxMessageBytes bounds one message of all its frames: the largest event batch and a little.
	MaxMessageBytes = 65 << 20
	// maxFrames bounds the frames of a message; a replayed batch has five.
	maxFrames = 16
	// readBufferBytes lets a step's three frames be read by one system call.
	readBufferBytes = 64 << 10
	// maxCommandBytes bounds a command: a READY has some forty bytes, a PING at most 23.
	maxCommandBytes = 4096
	// messageTimeout bounds the time from a message's first frame to its last byte, writeTimeout the wait for a peer that
	// does not read.
	messageTimeout = 30 * time.Second
	writeTimeout   = 5 * time.Second
	// handshakeTimeout bounds the exchange of greetings: a peer that is no ZeroMQ socket says nothing.
	handshakeTimeout = 5 * time.Second
)

// Frame flags.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// ErrProtocol means that the peer does not speak ZMTP 3 with NULL security, or broke its rules.
var ErrProtocol = errors.New("not a ZMTP 3 peer")

// Message is one multipart message. Frames share one buffer, which the next read reuses.
type Message struct {
	Frames [][]byte

	buf  []byte
	ends []int
}

// conn is one ZMTP connection after its handshake. Reads and writes each belong to one goroutine at a time.
type conn struct {
	net.Conn
	in   *bufio.Reader
	head [9]byte
	out  []byte
}

// open performs the handshake as a socket of this type.
func open(nc net.Conn, socketType string) (*conn, error) {
	c := &conn{Conn: nc, in: bufio.NewReaderSize(nc, readBufferBytes)}
	if err := nc.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	if err := c.greet(); err != nil {
		return nil, err
	}
	if err := c.ready(socketType); err != nil {
		return nil, err
	}
	return c, nc.SetDeadline(time.Time{})
}

// greet exchanges the 64-byte greetings: signature, version 3.0, mechanism NULL.
func (c *conn) greet() error {
	var g [64]byte
	g[0], g[9], g[10] = 0xff, 0x7f, 3
	copy(g[12:], "NULL")
	if _, err := c.Write(g[:]); err != nil {
		return fmt.Errorf("send greeting: %w", err)
	}
	if _, err := io.ReadFull(c.in, g[:]); err != nil {
		return fmt.Errorf("read greeting: %w", err)
	}
	if g[0] != 0xff || g[9]&1 == 0 || g[10] < 3 {
		return fmt.Errorf("greeting: %w", ErrProtocol)
	}
	if string(g[12:17]) != "NULL\x00" {
		return fmt.Errorf("peer wants security mechanism %.20q: %w", g[12:32], ErrProtocol)
	}
	return nil
}

// ready exchanges the READY commands.
func (c *conn) ready(socketType string) error {
	body := append([]byte{5}, "READY"...)
	body = append(body, byte(len("Socket-Type")))
	body = append(body, "Socket-Type"...)
	body = binary.BigEndian.AppendUint32(body, uint32(len(socketType)))
	body = append(body, socketType...)
	if err := c.command(body); err != nil {
		return fmt.Errorf("send READY: %w", err)
	}
	flags, size, err := c.frameHead()
	if err != nil {
		return fmt.Errorf("read READY: %w", err)
	}
	if flags&flagCommand == 0 || size > maxCommandBytes {
		return fmt.Errorf("READY: %w", ErrProtocol)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c.in, b); err != nil {
		return fmt.Errorf("read READY: %w", err)
	}
	if len(b) < 6 || string(b[:6]) != "\x05READY" {
		return fmt.Errorf("peer refused the handshake: %w", ErrProtocol)
	}
	return meets(socketType, peerSocket(b[6:]))
}

// ErrSocket means that a socket of the wrong kind answers: a replay endpoint where a publisher is looked for, or the
// other way round.
var ErrSocket = errors.New("a socket of another kind")

// meets is nil when the two kinds of socket talk to each other. A peer that names none is let through.
func meets(mine, peer string) error {
	want := map[string]string{"SUB": "PUB", "DEALER": "ROUTER"}[mine]
	if want == "" || peer == "" || peer == want || peer == "X"+want {
		return nil
	}
	return fmt.Errorf("%w answers: %.8q, not %s", ErrSocket, peer, want)
}

// peerSocket reads the kind of socket from the properties of a READY; empty where they do not tell.
func peerSocket(properties []byte) string {
	for len(properties) > 0 {
		n := int(properties[0])
		if len(properties) < 1+n+4 {
			return ""
		}
		name, rest := string(properties[1:1+n]), properties[1+n:]
		size := binary.BigEndian.Uint32(rest)
		if uint64(len(rest)-4) < uint64(size) {
			return ""
		}
		if strings.EqualFold(name, "Socket-Type") {
			return string(rest[4 : 4+size])
		}
		properties = rest[4+size:]
	}
	return ""
}

// frameHead reads a frame's flags and size.
func (c *conn) frameHead() (flags byte, size uint64, err error) {
	if _, err := io.ReadFull(c.in, c.head[:2]); err != nil {
		return 0, 0, err
	}
	flags, size = c.head[0], uint64(c.head[1])
	if flags&flagLong != 0 {
		c.head[0] = c.head[1]
		if _, err := io.ReadFull(c.in, c.head[1:8]); err != nil {
			return 0, 0, err
		}
		size = binary.BigEndian.Uint64(c.head[:8])
	}
	if size > MaxMessageBytes {
		return 0, 0, fmt.Errorf("frame of %d bytes: %w", size, ErrProtocol)
	}
	return flags, size, nil
}

// read reads one message into m and answers the peer's heartbeats on the way. The silence before a message is not
// bounded, the time that it takes is.
func (c *conn) read(m *Message) error {
	m.buf, m.ends, m.Frames = m.buf[:0], m.ends[:0], m.Frames[:0]
	timed := false
	for more := true; more; {
		flags, size, err := c.frameHead()
		if err != nil {
			return err
		}
		more = flags&(flagMore|flagCommand) != 0
		if !timed && uint64(c.in.Buffered()) < size+moreBytes(flags) {
			timed = true
			if err := c.SetReadDeadline(time.Now().Add(messageTimeout)); err != nil {
				return err
			}
		}
		start := len(m.buf)
		if flags&flagCommand != 0 && size > maxCommandBytes {
			return fmt.Errorf("command of %d bytes: %w", size, ErrProtocol)
		}
		if uint64(start)+size > MaxMessageBytes || len(m.ends) == maxFrames {
			return fmt.Errorf("message of %d frames and more than %d bytes: %w", len(m.ends), start, ErrProtocol)
		}
		if err := m.fill(c.in, int(size)); err != nil {
			return err
		}
		if flags&flagCommand != 0 {
			if err := c.answer(m.buf[start:]); err != nil {
				return err
			}
			m.buf = m.buf[:start]
		} else {
			m.ends = append(m.ends, len(m.buf))
		}
		if timed && (!more || len(m.ends) == 0) { // before the next message there may be any silence
			timed = false
			if err := c.SetReadDeadline(time.Time{}); err != nil {
				return err
			}
		}
	}
	m.cut()
	return nil
}

// cut makes the frames of what was read.
func (m *Message) cut() {
	start := 0
	for _, end := range m.ends {
		m.Frames = append(m.Frames, m.buf[start:end:end])
		start = end
	}
}

// moreBytes is what must follow a frame at least.
func moreBytes(flags byte) uint64 {
	if flags&flagMore != 0 {
		return 2
	}
	return 0
}

// fill appends size bytes of in, growing with what arrives rather than with what the peer promises.
func (m *Message) fill(in io.Reader, size int) error {
	const stepBytes = 1 << 20
	for size > 0 {
		n := min(size, stepBytes)
		at := len(m.buf)
		for cap(m.buf) < at+n {
			m.buf = append(m.buf[:cap(m.buf)], 0)
		}
		m.buf = m.buf[:at+n]
		if _, err := io.ReadFull(in, m.buf[at:]); err != nil {
			return err
		}
		size -= n
	}
	return nil
}

// answer reacts to a command: PING (ttl, context) gets its PONG; anything else is of no concern after the handshake.
func (c *conn) answer(body []byte) error {
	if len(body) >= 7 && string(body[:5]) == "\x04PING" {
		return c.command(append([]byte("\x04PONG"), body[7:]...))
	}
	return nil
}

// command sends a command frame.
func (c *conn) command(body []byte) error {
	c.out = appendFrame(c.out[:0], flagCommand, body)
	return c.flush()
}

// send sends one message.
func (c *conn) send(frames ...[]byte) error {
	c.out = c.out[:0]
	for i, f := range frames {
		var flags byte
		if i < len(frames)-1 {
			flags = flagMore
		}
		c.out = appendFrame(c.out, flags, f)
	}
	return c.flush()
}

// flush writes out.
func (c *conn) flush() error {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := c.Write(c.out)
	return err
}

// appendFrame appends one frame in its shortest form.
func appendFrame(dst []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		dst = append(dst, flags|flagLong)
		dst = binary.BigEndian.AppendUint64(dst, uint64(len(body)))
		return append(dst, body...)
	}
	return append(append(dst, flags, byte(len(body))), body...)
}
