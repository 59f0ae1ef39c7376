package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
)

// A large piece of a stream is three writes for net/http: what fills its buffer of 4 KiB together with the chunk's length,
// the rest, and the chunk's end. Each is a system call here and a wake-up at the client. A gathering connection joins them.
const (
	gatherAbove = 2 << 10 // smaller pieces fit into net/http's buffers and are one write anyway
	gatherMost  = 64 << 10
)

// Gathering is a listener whose connections can join writes.
type Gathering struct {
	net.Listener
	buffers sync.Pool // of *[]byte
}

// NewGathering wraps a listener below TLS, if there is any.
func NewGathering(ln net.Listener) *Gathering { return &Gathering{Listener: ln} }

// Accept waits for a connection.
func (g *Gathering) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gathered{Conn: c, buffers: &g.buffers}, nil
}

// gathered is one connection. Only one goroutine at a time writes, as in HTTP/1.
type gathered struct {
	net.Conn
	buffers *sync.Pool
	held    *[]byte // what is to be written; nil when writes are not joined
}

// Write writes, or keeps a copy for later. What is too much is written at once.
func (c *gathered) Write(p []byte) (int, error) {
	if c.held == nil {
		return c.Conn.Write(p)
	}
	if len(*c.held)+len(p) > gatherMost {
		if err := c.flush(); err != nil {
			return 0, err
		}
		if len(p) > gatherMost {
			return c.Conn.Write(p)
		}
	}
	*c.held = append(*c.held, p...)
	return len(p), nil
}

// gather joins what is written until release.
func (c *gathered) gather() {
	c.held, _ = c.buffers.Get().(*[]byte)
	if c.held == nil {
		c.held = new([]byte)
	}
}

// release writes what was gathered.
func (c *gathered) release() error {
	err := c.flush()
	c.buffers.Put(c.held)
	c.held = nil
	return err
}

func (c *gathered) flush() error {
	if len(*c.held) == 0 {
		return nil
	}
	_, err := c.Conn.Write(*c.held)
	*c.held = (*c.held)[:0]
	return err
}

// CloseWrite is what net/http ends a refused request's connection with.
func (c *gathered) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

type gatheredKey struct{}

// ConnContext is for http.Server: a request finds its connection by it.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if g, ok := c.(*gathered); ok {
		return context.WithValue(ctx, gatheredKey{}, g)
	}
	return ctx
}

// connOf is the connection of a request, nil where the server has others.
func connOf(ctx context.Context) *gathered {
	g, _ := ctx.Value(gatheredKey{}).(*gathered)
	return g
}
