package publish

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
)

// peer is one ZMTP connection after its handshake. Messages are sent on wire and received through the ZMTP layer, which
// also answers heartbeats.
type peer struct {
	*wire
	zmtp *zmq4.Conn
}

// receive returns the frames of the peer's next message; commands, such as heartbeats, are passed over.
func (p *peer) receive() ([][]byte, error) {
	for {
		msg, err := p.zmtp.RecvMsg()
		if err != nil {
			return nil, err
		}
		if msg.Type != zmq4.CmdMsg {
			return msg.Frames, nil
		}
	}
}

// close ends the connection; both of its goroutines then return.
func (p *peer) close() { _ = p.wire.Close() }

// handshakeTimeout bounds a peer that connects and says nothing.
const handshakeTimeout = 5 * time.Second

// redialInterval is libzmq's default ZMQ_RECONNECT_IVL.
const redialInterval = 100 * time.Millisecond

// hub accepts (or dials) peers of one socket type and runs serve for each. It owns every goroutine it starts; stop
// closes all connections and waits for them.
type hub struct {
	kind  zmq4.SocketType
	serve func(ctx context.Context, p *peer)

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]struct{}
	closed   bool
	wg       sync.WaitGroup
	ctx      context.Context
	cancel   context.CancelFunc
}

// newHub makes a hub that neither listens nor dials yet.
func newHub(kind zmq4.SocketType, serve func(context.Context, *peer)) *hub {
	h := &hub{kind: kind, serve: serve, conns: map[net.Conn]struct{}{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// listen binds and accepts until stop. Handshakes run side by side: a silent peer holds up nobody.
func (h *hub) listen(network, addr string) error {
	l, err := net.Listen(network, addr)
	if err != nil {
		return err
	}
	h.listener = l
	h.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				if errors.Is(err, net.ErrClosed) {
					return
				}
				continue
			}
			h.wg.Go(func() { h.handle(c, true) })
		}
	})
	return nil
}

// dial keeps one connection to addr, as a connecting ZeroMQ socket does, until the hub stops.
func (h *hub) dial(network, addr string) {
	h.wg.Go(func() {
		timer := time.NewTimer(0)
		defer timer.Stop()
		for {
			select {
			case <-h.ctx.Done():
				return
			case <-timer.C:
			}
			d := net.Dialer{Timeout: handshakeTimeout}
			if c, err := d.DialContext(h.ctx, network, addr); err == nil {
				h.handle(c, false)
			}
			timer.Reset(redialInterval)
		}
	})
}

// handle runs one connection from its handshake to its end.
func (h *hub) handle(c net.Conn, server bool) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		_ = c.Close()
		return
	}
	h.conns[c] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.conns, c)
		h.mu.Unlock()
		_ = c.Close()
	}()
	raw := &wire{Conn: c}
	_ = c.SetDeadline(time.Now().Add(handshakeTimeout))
	z, err := zmq4.Open(raw, null.Security(), h.kind, nil, server, func(*zmq4.Conn) {})
	if err != nil {
		return
	}
	_ = c.SetDeadline(time.Time{})
	raw.frames()
	h.serve(h.ctx, &peer{wire: raw, zmtp: z})
}

// stop closes everything and returns when no goroutine of the hub is left.
func (h *hub) stop() {
	h.mu.Lock()
	h.closed = true
	h.cancel()
	if h.listener != nil {
		_ = h.listener.Close()
	}
	for c := range h.conns {
		_ = c.Close()
	}
	h.mu.Unlock()
	h.wg.Wait()
}
