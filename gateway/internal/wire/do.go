package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"
)

// Request is one call. Host, Content-Length and Connection are the client's own business.
type Request struct {
	// Base is the worker's address, scheme and host.
	Base string
	// Method and Path form the request line; Path begins with a slash and may have a query.
	Method, Path string
	// Header is encoded header lines, each ended by CR LF.
	Header []byte
	// Body is sent as it lies; it must not change before Do returns.
	Body [][]byte
}

// Phase is how far a failed call came.
type Phase uint8

// Phases of a call.
const (
	// PhaseConnect: no connection; the worker has seen nothing.
	PhaseConnect Phase = iota
	// PhaseHead: sent, but no whole response head came.
	PhaseHead
	// PhaseBody: the body broke off.
	PhaseBody
)

// Error is a failed call.
type Error struct {
	Phase Phase
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// past is a deadline that has gone: it wakes a blocked read or write.
func past() time.Time { return time.Unix(1, 0) }

// Do sends a request and reads the response's head. A connection that the worker closed while it was idle is replaced
// once, in silence. The response must be closed. When ctx ends, blocked reads and writes fail at once, here and in the
// response's body.
func (c *Client) Do(ctx context.Context, req *Request) (*Response, error) {
	h, err := c.host(req.Base)
	if err != nil {
		return nil, &Error{Phase: PhaseConnect, Err: err}
	}
	if cn := h.take(time.Now(), c.cfg.IdleTimeout); cn != nil {
		cn.reused = true
		resp, err := c.roundTrip(ctx, cn, req)
		if err == nil || !stale(err) || ctx.Err() != nil {
			return resp, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, &Error{Phase: PhaseConnect, Err: err}
	}
	cn, err := c.dial(ctx, h)
	if err != nil {
		return nil, &Error{Phase: PhaseConnect, Err: err}
	}
	return c.roundTrip(ctx, cn, req)
}

// errNoByte marks a connection that ended before the first byte of the response.
var errNoByte = errors.New("connection closed before the response")

// stale tells whether a reused connection was closed by the worker before it answered anything.
func stale(err error) bool { return errors.Is(err, errNoByte) }

// roundTrip owns cn until the response is closed or an error is returned.
func (c *Client) roundTrip(ctx context.Context, cn *conn, req *Request) (*Response, error) {
	r := &Response{client: c, conn: cn}
	nc := cn.nc
	r.stop = context.AfterFunc(ctx, func() { _ = nc.SetDeadline(past()) })
	err := cn.send(req, &c.heads)
	if err == nil || !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		if err == nil {
			err = r.readHead(ctx, req.Method == "HEAD")
		}
	} else if herr := r.readHead(ctx, false); herr == nil {
		err = nil // the worker answered before it had read everything
		r.closeAfter = true
	} else {
		err = errNoByte
	}
	if err == nil {
		return r, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	r.broken = true
	r.Close()
	return nil, &Error{Phase: PhaseHead, Err: err}
}

// send writes head and body in one system call where the kernel takes it.
func (c *conn) send(req *Request, heads *headPool) error {
	b := heads.get()[:0]
	defer func() { heads.put(b[:cap(b)]) }()
	b = append(b, req.Method...)
	b = append(b, ' ')
	b = append(b, c.host.prefix...)
	b = append(b, req.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.host.name...)
	b = append(b, "\r\n"...)
	b = append(b, req.Header...)
	n := 0
	for _, s := range req.Body {
		n += len(s)
	}
	if n > 0 || req.Method != "GET" && req.Method != "HEAD" {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(n), 10)
		b = append(b, "\r\n"...)
	}
	b = append(b, "\r\n"...)
	// Small bodies are copied behind the head: one write costs less than a vector.
	if len(b)+n <= headBytes {
		for _, s := range req.Body {
			b = append(b, s...)
		}
		_, err := c.nc.Write(b)
		return err
	}
	out := append(make(net.Buffers, 0, len(req.Body)+1), b)
	out = append(out, req.Body...)
	_, err := out.WriteTo(c.nc)
	return err
}

// Response is a worker's answer. It is used by one goroutine.
type Response struct {
	head

	client *Client
	conn   *conn
	stop   func() bool
	early  []byte // raw body bytes that came with the head
	buf    []byte // lent buffer that early lies in
	chunks chunked
	left   int64
	done   bool
	broken bool
	timed  bool // a read limit is set on the connection
}

// Status is the HTTP status.
func (r *Response) Status() int { return r.status }

// Header is the header lines. They are valid until Close.
func (r *Response) Header() Header { return r.header }

// DropHeader lets the header lines go; a stream that stays open does not need them.
func (r *Response) DropHeader() { r.header = nil }

// Length is the body's length in bytes, -1 when it is not known.
func (r *Response) Length() int64 {
	if r.chunked {
		return -1
	}
	return r.length
}

// readHead reads until the blank line of a final response.
func (r *Response) readHead(ctx context.Context, noBody bool) error {
	r.buf = r.client.heads.get()
	n, seen := 0, 0
	for {
		end := headEnd(r.buf[:n], seen)
		if end < 0 {
			if n == maxHeadBytes {
				return errHeadSize
			}
			if n == len(r.buf) {
				r.buf = append(r.buf, make([]byte, len(r.buf))...)
			}
			seen = n
			m, err := r.conn.nc.Read(r.buf[n:])
			n += m
			if err != nil && m == 0 {
				return r.headError(ctx, n, err)
			}
			continue
		}
		h, err := parseHead(r.buf[:end], r.header)
		if err != nil {
			return err
		}
		if h.status < 200 && h.status != 101 {
			n = copy(r.buf, r.buf[end:n])
			seen = 0
			continue
		}
		r.head = h
		r.begin(r.buf[end:n], noBody)
		return nil
	}
}

func (r *Response) headError(ctx context.Context, n int, err error) error {
	if n == 0 && r.conn.reused && ctx.Err() == nil && !isTimeout(err) {
		return errNoByte
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// begin prepares reading the body.
func (r *Response) begin(early []byte, noBody bool) {
	r.early = early
	r.left = r.length
	switch {
	case noBody || r.status == 204 || r.status == 304:
		r.done = true
	case r.chunked:
		r.chunks = chunked{}
	case r.length == 0:
		r.done = true
	case r.length < 0:
		r.closeAfter = true
	}
	if r.done && len(early) > 0 {
		r.broken = true
	}
	if len(early) == 0 {
		r.release()
	}
}

func (r *Response) release() {
	if r.buf != nil {
		r.client.heads.put(r.buf)
		r.buf, r.early = nil, nil
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
