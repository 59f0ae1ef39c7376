package wire

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// headBytes is the size of the buffer for response heads; vLLM's are below 1 KB. It is lent only while a head is read.
const headBytes = 4096

// maxHeadBytes bounds a response head.
const maxHeadBytes = 64 << 10

// conn is one connection. One request at a time uses it.
type conn struct {
	nc        net.Conn
	host      *host
	idleSince time.Time
	reused    bool
}

func newConn(nc net.Conn, h *host) *conn { return &conn{nc: nc, host: h} }

// alive tells whether the worker has neither closed an idle connection nor sent anything on it.
func (c *conn) alive() bool {
	sc, ok := c.nc.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, rerr := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = errors.Is(rerr, syscall.EAGAIN)
		return true
	})
	return err == nil && quiet
}

// headPool lends buffers for response heads.
type headPool struct{ pool sync.Pool }

func (p *headPool) get() []byte {
	if b, ok := p.pool.Get().(*[headBytes]byte); ok {
		return b[:]
	}
	return make([]byte, headBytes)
}

func (p *headPool) put(b []byte) {
	if cap(b) == headBytes { // a pointer to the array: one to the slice would be one more allocation
		p.pool.Put((*[headBytes]byte)(b[:headBytes]))
	}
}
