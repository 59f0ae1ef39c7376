package wire

import (
	"context"
	"errors"
	"io"
	"time"
)

// Read fills p with body bytes. It makes at most one system call that waits, and returns what came with it. io.EOF is
// the body's proper end; a body that breaks off is an *Error of PhaseBody. p must not be empty.
func (r *Response) Read(p []byte) (int, error) {
	for {
		if r.done {
			return 0, io.EOF
		}
		raw, err := r.fill(p)
		n, derr := r.take(p[:raw])
		switch {
		case derr != nil:
			return n, r.fail(derr)
		case n > 0 || r.done:
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		case err != nil:
			return 0, r.end(err)
		}
	}
}

// fill puts raw bytes into p: those that came with the head first.
func (r *Response) fill(p []byte) (int, error) {
	if len(r.early) > 0 {
		n := copy(p, r.early)
		if r.early = r.early[n:]; len(r.early) == 0 {
			r.release()
		}
		return n, nil
	}
	n, err := r.conn.nc.Read(p)
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// take decodes raw bytes in place and keeps account of the body's end.
func (r *Response) take(raw []byte) (int, error) {
	switch {
	case r.chunked:
		n, used, err := r.chunks.decode(raw)
		if r.chunks.state == chunkDone {
			r.done = true
			r.broken = r.broken || used < len(raw) || len(r.early) > 0
		}
		return n, err
	case r.left >= 0:
		n := min(int64(len(raw)), r.left)
		if r.left -= n; r.left == 0 {
			r.done = true
			r.broken = r.broken || int(n) < len(raw) || len(r.early) > 0
		}
		return int(n), nil
	default:
		return len(raw), nil
	}
}

// end judges an error of the socket: for a body without a length the end of the connection is its end.
func (r *Response) end(err error) error {
	if errors.Is(err, io.EOF) && !r.chunked && r.left < 0 {
		r.done = true
		return io.EOF
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return r.fail(err)
}

// fail marks the connection as unusable, except for a wake-up asked for by WakeAfter.
func (r *Response) fail(err error) error {
	if !isTimeout(err) {
		r.broken = true
	}
	return &Error{Phase: PhaseBody, Err: err}
}

// WakeAfter makes a waiting Read return with an error for which Woken is true after d. ctx is the one given to Do.
func (r *Response) WakeAfter(ctx context.Context, d time.Duration) {
	r.timed = true
	_ = r.conn.nc.SetReadDeadline(time.Now().Add(d))
	if ctx.Err() != nil {
		_ = r.conn.nc.SetDeadline(past())
	}
}

// Woken tells whether a Read ended because of WakeAfter. The caller checks its context too: an ended context wakes in
// the same way.
func Woken(err error) bool { return isTimeout(err) }

// Close gives the connection back when the body was read to its end, and closes it else. It must be called once.
func (r *Response) Close() {
	stopped := r.stop()
	c, cn := r.client, r.conn
	r.release()
	if stopped && r.done && !r.broken && !r.closeAfter {
		if r.timed {
			_ = cn.nc.SetDeadline(time.Time{})
		}
		cn.reused = false
		cn.host.put(cn, c.cfg.MaxIdle)
	} else {
		_ = cn.nc.Close()
	}
}

// MustClose tells whether the worker ends the connection after this response.
func (r *Response) MustClose() bool { return r.closeAfter }

// Ended tells whether the body was read to its proper end.
func (r *Response) Ended() bool { return r.done }

// Detach makes the response independent of Do's context. It is false when the context has ended already.
func (r *Response) Detach() bool {
	if !r.stop() {
		return false
	}
	r.stop = func() bool { return true }
	return true
}
