package chat

import (
	"sync"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
)

// maxRequested bounds the templates kept of requests; each source is at most the engine's source limit.
const maxRequested = 64

// sourceCache keeps templates that requests bring, by source. When it is full it starts again: such templates are
// few in practice, and a hostile client gains nothing but compile time.
type sourceCache struct {
	mu     sync.Mutex
	bySrc  map[string]*compiled
	failed map[string]error
}

func newSourceCache() *sourceCache {
	return &sourceCache{bySrc: make(map[string]*compiled), failed: make(map[string]error)}
}

// get compiles source once.
func (c *sourceCache) get(source string, limits jinja.Limits) (*compiled, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.bySrc[source]; ok {
		return t, nil
	}
	if err, ok := c.failed[source]; ok {
		return nil, err
	}
	if len(c.bySrc)+len(c.failed) >= maxRequested {
		clear(c.bySrc)
		clear(c.failed)
	}
	t, err := compile("request", source, limits)
	if err != nil {
		c.failed[source] = err
		return nil, err
	}
	c.bySrc[source] = t
	return t, nil
}
