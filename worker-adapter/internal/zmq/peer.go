package zmq

import "net"

// Peer is the other side of a connection: what a publisher or a replay socket sees. Simulated workers in tests use it.
type Peer struct {
	c *conn
	m Message
}

// Accept performs the handshake as a socket of this type ("PUB", "ROUTER") on an open connection.
func Accept(nc net.Conn, socketType string) (*Peer, error) {
	c, err := open(nc, socketType)
	if err != nil {
		return nil, err
	}
	return &Peer{c: c}, nil
}

// Recv returns the next message's frames, valid until the next call. A subscription comes as one frame that begins
// with 1.
func (p *Peer) Recv() ([][]byte, error) {
	err := p.c.read(&p.m)
	return p.m.Frames, err
}

// Send sends one message.
func (p *Peer) Send(frames ...[]byte) error { return p.c.send(frames...) }

// Ping sends a heartbeat as libzmq does: a time to live of one second, and a context that the PONG must repeat.
func (p *Peer) Ping(context string) error {
	return p.c.command(append([]byte("\x04PING\x00\x0a"), context...))
}

// Close ends the connection.
func (p *Peer) Close() error { return p.c.Close() }
