// Package wire is the HTTP/1.1 client for workers. The caller's own goroutine reads the socket: a request costs one
// write and one read where the kernel allows it, and an open stream no goroutine. Connections are pooled without a cap
// on how many are open.
package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"
)

// Config limits the client.
type Config struct {
	// ConnectTimeout bounds dialling and the TLS handshake.
	ConnectTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept; it must be below the worker's own, which is 5 s in vLLM.
	IdleTimeout time.Duration
	// MaxIdle is how many unused connections are kept per worker.
	MaxIdle int
	// TLS is used for https workers.
	TLS *tls.Config
}

// Client holds the pools of all workers. Its methods may be used concurrently.
type Client struct {
	cfg    Config
	dialer net.Dialer

	mu    sync.RWMutex
	hosts map[string]*host
	heads headPool
}

// NewClient makes a client without connections.
func NewClient(cfg Config) *Client {
	return &Client{cfg: cfg, dialer: net.Dialer{Timeout: cfg.ConnectTimeout}, hosts: map[string]*host{}}
}

// host is one worker's pool. idle is a stack: the connection used last is used first.
type host struct {
	addr   string
	name   string
	useTLS bool
	prefix string

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

// ErrAddress is an address that cannot be used.
var ErrAddress = errors.New("unusable worker address")

// host finds or makes the pool of a base address such as http://10.0.0.1:8000.
func (c *Client) host(base string) (*host, error) {
	c.mu.RLock()
	h := c.hosts[base]
	c.mu.RUnlock()
	if h != nil {
		return h, nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, ErrAddress
	}
	h = &host{name: u.Host, addr: u.Host, useTLS: u.Scheme == "https", prefix: u.EscapedPath()}
	for len(h.prefix) > 0 && h.prefix[len(h.prefix)-1] == '/' {
		h.prefix = h.prefix[:len(h.prefix)-1]
	}
	if u.Port() == "" {
		port := map[bool]string{false: "80", true: "443"}[h.useTLS]
		h.addr = net.JoinHostPort(u.Hostname(), port)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.hosts[base]; have != nil {
		return have, nil
	}
	c.hosts[base] = h
	return h, nil
}

// take pops an idle connection that is young enough and that the worker has not closed; nil when there is none.
func (h *host) take(now time.Time, idle time.Duration) *conn {
	for {
		h.mu.Lock()
		n := len(h.idle)
		if n == 0 {
			h.mu.Unlock()
			return nil
		}
		c := h.idle[n-1]
		h.idle[n-1] = nil
		h.idle = h.idle[:n-1]
		h.mu.Unlock()
		age := now.Sub(c.idleSince)
		if age < idle && (age < peekAfter || c.alive()) {
			return c
		}
		_ = c.nc.Close()
	}
}

// peekAfter is the idle time after which a connection is looked at before use: younger ones are all but never closed by
// the worker, and looking costs a system call.
const peekAfter = 50 * time.Millisecond

// put gives a connection back.
func (h *host) put(c *conn, maxIdle int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.idle) >= maxIdle {
		_ = c.nc.Close()
		return
	}
	c.idleSince = time.Now()
	h.idle = append(h.idle, c)
}

// prune closes connections that were idle for too long and reports whether any is left.
func (h *host) prune(now time.Time, idle time.Duration, all bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = h.closed || all
	kept := h.idle[:0]
	for _, c := range h.idle {
		if all || now.Sub(c.idleSince) >= idle {
			_ = c.nc.Close()
			continue
		}
		kept = append(kept, c)
	}
	clear(h.idle[len(kept):])
	h.idle = kept
	return len(kept) > 0
}

// Run closes idle connections in time until ctx ends, then all of them.
func (c *Client) Run(ctx context.Context) {
	tick := time.NewTicker(max(c.cfg.IdleTimeout/2, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			c.prune(time.Now(), true)
			return
		case now := <-tick.C:
			c.prune(now, false)
		}
	}
}

func (c *Client) prune(now time.Time, all bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, h := range c.hosts {
		h.prune(now, c.cfg.IdleTimeout, all)
	}
}

// dial opens a connection.
func (c *Client) dial(ctx context.Context, h *host) (*conn, error) {
	nc, err := c.dialer.DialContext(ctx, "tcp", h.addr)
	if err != nil {
		return nil, err
	}
	if !h.useTLS {
		return newConn(nc, h), nil
	}
	cfg := &tls.Config{}
	if c.cfg.TLS != nil {
		cfg = c.cfg.TLS.Clone()
	}
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(h.addr)
	}
	tc := tls.Client(nc, cfg)
	hs, cancel := context.WithTimeout(ctx, c.cfg.ConnectTimeout)
	defer cancel()
	if err := tc.HandshakeContext(hs); err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return newConn(tc, h), nil
}
