package zmq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// firstRetry and lastRetry bound the pause between attempts to connect: a worker that restarts is heard again
	// within a quarter of a second, one that is gone costs four attempts a second.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 250 * time.Millisecond
	// maxPublishers bounds the connections to a bound socket.
	maxPublishers = 8
	// seqBytes is the size of a sequence number.
	seqBytes = 8
)

// Update is one published batch. Payload belongs to the receiver of the call only until it returns.
type Update struct {
	Seq     uint64
	Payload []byte
	// Topic is what the message carried; nil in replies of vLLM before 0.26.
	Topic []byte
}

// Handler hears a subscription. Calls come one at a time.
type Handler interface {
	// Connected is called after each handshake: what was published before may be missing.
	Connected()
	// Disconnected is called when a connection ended, with the reason, and when an attempt to connect failed.
	Disconnected(err error)
	// Updated is called for each batch. While it runs nothing is read, so that a slow handler pushes back on the
	// publisher, whose own high-water mark then decides.
	Updated(u Update)
}

// Subscription says what to hear.
type Subscription struct {
	// Endpoint is tcp://host:port or ipc:///path.
	Endpoint string
	// Bind makes this side listen, for a publisher that connects.
	Bind bool
	// Topic is a prefix; empty hears everything.
	Topic string
}

// Subscribe hears a publisher until ctx ends, through any number of connections. It returns nil then, and an error only
// for an endpoint that can never work or be bound.
func Subscribe(ctx context.Context, sub Subscription, h Handler) error {
	if sub.Bind {
		return listen(ctx, sub, h)
	}
	if err := Check(sub.Endpoint); err != nil {
		return err
	}
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		c, err := dial(ctx, sub.Endpoint, "SUB")
		if err == nil {
			wait = firstRetry
			h.Connected()
			err = hear(ctx, c, sub, h.Updated)
		}
		if ctx.Err() != nil {
			return nil
		}
		h.Disconnected(err)
		if !pause(ctx, wait) {
			return nil
		}
	}
}

// pause waits; false when ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// hear subscribes on a connection and passes batches on until it ends. It closes the connection.
func hear(ctx context.Context, c *conn, sub Subscription, updated func(Update)) error {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := c.send(append([]byte{1}, sub.Topic...)); err != nil {
		return fmt.Errorf("subscribe at %s: %w", sub.Endpoint, err)
	}
	var m Message
	for {
		if err := c.read(&m); err != nil {
			return fmt.Errorf("read from %s: %w", sub.Endpoint, err)
		}
		if len(m.Frames) != 3 || len(m.Frames[1]) != seqBytes {
			continue // no event batch: other traffic on a shared port is none of ours
		}
		updated(Update{Seq: binary.BigEndian.Uint64(m.Frames[1]), Payload: m.Frames[2], Topic: m.Frames[0]})
	}
}

// listen hears publishers that connect. Several may, one after another or, in the moment of a restart, at once.
func listen(ctx context.Context, sub Subscription, h Handler) error {
	network, address, err := split(sub.Endpoint)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, address)
	if err != nil {
		return fmt.Errorf("bind %s: %w", sub.Endpoint, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	b := bound{sub: sub, h: h, slots: make(chan struct{}, maxPublishers)}
	defer b.wg.Wait()
	for {
		nc, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept at %s: %w", sub.Endpoint, err)
			}
			if !pause(ctx, firstRetry) {
				return nil
			}
			continue
		}
		b.accept(ctx, nc)
	}
}

// bound is a listening subscription; mu orders the handler's calls.
type bound struct {
	sub   Subscription
	h     Handler
	slots chan struct{}
	mu    sync.Mutex
	wg    sync.WaitGroup
}

// accept serves a connection in a goroutine of its own, or refuses it when there are too many.
func (b *bound) accept(ctx context.Context, nc net.Conn) {
	select {
	case b.slots <- struct{}{}:
	default:
		_ = nc.Close()
		return
	}
	b.wg.Go(func() {
		defer func() { <-b.slots }()
		defer nc.Close()
		stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
		defer stop()
		c, err := open(nc, "SUB")
		if err == nil {
			b.locked(b.h.Connected)
			err = hear(ctx, c, b.sub, func(u Update) { b.locked(func() { b.h.Updated(u) }) })
		}
		if ctx.Err() == nil {
			b.locked(func() { b.h.Disconnected(err) })
		}
	})
}

// locked calls f alone.
func (b *bound) locked(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}
