// Package deadline bounds calls without a timer for each. Most calls end long before their deadline, and most of what
// they do looks at their context now and then instead of waiting for it; a timer and a link to the parent are made only
// when somebody asks for Done.
package deadline

import (
	"context"
	"sync"
	"time"
)

// Context is a context that ends with its parent, at a time, or when it is ended. It is ready for use after Start. It is
// safe for concurrent use and must not be copied.
type Context struct {
	parent context.Context
	at     time.Time // zero for none

	mu    sync.Mutex
	inner context.Context // from the first Done on
	stop  context.CancelFunc
	err   error // the first one seen
}

// With is a context that ends with parent, after d, or when End is called, which must be done.
func With(parent context.Context, d time.Duration) *Context {
	c := &Context{}
	c.Start(parent, time.Now().Add(d))
	return c
}

// Start makes a zero Context one that ends with parent, at a time (none when it is zero), or by End. A parent's earlier
// deadline counts.
func (c *Context) Start(parent context.Context, at time.Time) {
	if due, has := parent.Deadline(); has && (at.IsZero() || due.Before(at)) {
		at = due
	}
	c.parent, c.at = parent, at
}

// Deadline is when the context ends at the latest.
func (c *Context) Deadline() (time.Time, bool) { return c.at, !c.at.IsZero() }

// Done is closed when the context has ended. The first call makes the timer.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waitable().Done()
}

// waitable is called with mu held.
func (c *Context) waitable() context.Context {
	if c.inner == nil {
		if c.at.IsZero() {
			c.inner, c.stop = context.WithCancel(c.parent)
		} else {
			c.inner, c.stop = context.WithDeadline(c.parent, c.at)
		}
		if c.err != nil {
			c.stop()
		}
	}
	return c.inner
}

// Err is why the context has ended, nil while it has not.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = c.reason()
	}
	return c.err
}

// reason is called with mu held.
func (c *Context) reason() error {
	if c.inner != nil {
		return c.inner.Err()
	}
	if err := c.parent.Err(); err != nil {
		return err
	}
	if !c.at.IsZero() && !time.Now().Before(c.at) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value is the parent's. Package context looks for its own nearest cancelable context under a pointer to int; a context
// made from this one finds the waitable one and joins it without a goroutine.
func (c *Context) Value(key any) any {
	if _, ancestor := key.(*int); ancestor {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.waitable().Value(key)
	}
	return c.parent.Value(key)
}

// End ends the context as a context.CancelFunc does; ending it again does nothing.
func (c *Context) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		if c.err = c.reason(); c.err == nil {
			c.err = context.Canceled
		}
	}
	if c.stop != nil {
		c.stop()
	}
}

// Sooner moves the deadline forward by d. It must come before anybody else has the context.
func (c *Context) Sooner(d time.Duration) { c.at = c.at.Add(-d) }
