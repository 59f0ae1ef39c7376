package publish

import (
	"net"
	"sync"

	"github.com/go-zeromq/zmq4"
)

// bufferedConn gathers the many small writes with which the ZMTP layer sends one message into one packet. It writes
// through until hold is called, so that the handshake is not delayed. Write and flush may be called by any goroutine.
type bufferedConn struct {
	net.Conn
	mu   sync.Mutex
	held bool
	buf  []byte
}

// Write passes bytes on during the handshake and keeps them afterwards. It never blocks once held.
func (c *bufferedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.held {
		return c.Conn.Write(p)
	}
	c.buf = append(c.buf, p...)
	return len(p), nil
}

// hold begins to gather writes.
func (c *bufferedConn) hold() {
	c.mu.Lock()
	c.held = true
	c.mu.Unlock()
}

// flush writes what was gathered in one call.
func (c *bufferedConn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.buf) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.buf)
	c.buf = c.buf[:0]
	return err
}

// peer is one ZMTP connection after its handshake. send is for one goroutine at a time.
type peer struct {
	raw  *bufferedConn
	zmtp *zmq4.Conn
}

// send writes one multipart message as one packet.
func (p *peer) send(frames ...[]byte) error {
	if err := p.zmtp.SendMsg(zmq4.NewMsgFrom(frames...)); err != nil {
		return err
	}
	return p.raw.flush()
}

// close ends the connection; both of its goroutines then return.
func (p *peer) close() { _ = p.raw.Close() }
