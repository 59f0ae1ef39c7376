package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Stack closes resources in the reverse of the order in which they were acquired. The zero Stack is ready. It is safe
// for concurrent use. What a caller handed in, the caller closes: only what was acquired goes on the stack.
type Stack struct {
	mu    sync.Mutex
	items []closer
}

// closer is one resource.
type closer struct {
	name  string
	close func(context.Context) error
}

// Push adds a resource.
func (s *Stack) Push(name string, closeFn func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, closer{name: name, close: closeFn})
}

// Close closes everything, also after errors, and empties the stack: a second call does nothing.
func (s *Stack) Close(ctx context.Context) error {
	s.mu.Lock()
	items := s.items
	s.items = nil
	s.mu.Unlock()
	var errs []error
	for i := len(items) - 1; i >= 0; i-- {
		if err := items[i].close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", items[i].name, err))
		}
	}
	return errors.Join(errs...)
}
