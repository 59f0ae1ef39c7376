// Package lifecycle starts and stops what a process is made of: components in dependency order, resources in a stack.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultGrace is how long a component may take to stop when it does not say.
const DefaultGrace = 10 * time.Second

// Component is one part of a process. Every function may be nil.
type Component struct {
	// Name is unique in its group; it shows in logs and readiness.
	Name string
	// Needs are components that are ready before this one starts and stop after it.
	Needs []string
	// Start makes the component work and returns: it listens, loads. It runs before Run.
	Start func(ctx context.Context) error
	// Run blocks until ctx ends and returns nil then. Returning earlier, with or without an error, fails the group.
	Run func(ctx context.Context) error
	// Ready is nil or a sentence why not. The group waits for it at start, unless Late is set; later it is only reported.
	Ready func(ctx context.Context) error
	// Late is set for what others make ready, a worker that comes for one: what needs it starts at once.
	Late bool
	// Stop ends what Start began, in an orderly way, before Run's context ends. ctx ends with the grace.
	Stop func(ctx context.Context) error
	// Grace bounds Stop and the return of Run; 0 means DefaultGrace.
	Grace time.Duration
}

// Group is a set of components. Start it once, Stop it once or more.
type Group struct {
	log   *slog.Logger
	order []*member
	done  chan struct{} // closed at the first failure

	stopMu sync.Mutex // one Stop at a time; the next finds nothing left to do

	mu       sync.Mutex
	err      error // the first failure
	stopping bool
}

// member is a component and its running state; started and the fields after it belong to Start and Stop.
type member struct {
	Component
	up      atomic.Bool // between the end of its Start and the beginning of its Stop
	started bool
	cancel  context.CancelFunc
	ended   chan struct{} // closed when Run has returned
}

// NewGroup orders components by their needs. Unknown names, double names and cycles are errors.
func NewGroup(log *slog.Logger, components ...Component) (*Group, error) {
	order, err := sortByNeeds(components)
	if err != nil {
		return nil, err
	}
	g := &Group{log: log, done: make(chan struct{})}
	for _, c := range order {
		if c.Grace == 0 {
			c.Grace = DefaultGrace
		}
		g.order = append(g.order, &member{Component: c})
	}
	return g, nil
}

// Start starts the components one after the other and waits until each is ready. When one fails or ctx ends, those that
// run are stopped again and the error is returned.
func (g *Group) Start(ctx context.Context) error {
	for _, m := range g.order {
		began := time.Now()
		if err := g.startOne(ctx, m); err != nil {
			err = fmt.Errorf("start %s: %w", m.Name, err)
			// The caller's context may be what ended: stopping has its own time.
			if stop := g.Stop(context.WithoutCancel(ctx)); stop != nil {
				return errors.Join(err, stop)
			}
			return err
		}
		g.log.Debug("component is ready", "component", m.Name, "ms", time.Since(began).Milliseconds())
	}
	return nil
}

// startOne marks the member as started before it waits: what runs but never gets ready must be stopped too.
func (g *Group) startOne(ctx context.Context, m *member) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.Start != nil {
		if err := m.Start(ctx); err != nil {
			return err
		}
	}
	m.started = true
	m.up.Store(true)
	m.ended = make(chan struct{})
	var run context.Context
	run, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() { // ended by Stop through m.cancel
		defer close(m.ended)
		if m.Run == nil {
			return
		}
		err := m.Run(run)
		if run.Err() == nil {
			g.fail(m.Name, err)
		}
	}()
	return g.awaitReady(ctx, m)
}

// Polling readiness starts fast, for components that need a moment, and slows down for those that load large files.
const (
	readyPollFirst = 5 * time.Millisecond
	readyPollMost  = 250 * time.Millisecond
)

// awaitReady returns the last reason when the time is over: "deadline exceeded" alone helps nobody.
func (g *Group) awaitReady(ctx context.Context, m *member) error {
	if m.Ready == nil || m.Late {
		return nil
	}
	for pause := readyPollFirst; ; pause = min(2*pause, readyPollMost) {
		why := m.Ready(ctx)
		if why == nil {
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-g.done:
			timer.Stop()
			return g.failureOf(m)
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("not ready (%w) when the time was over: %w", why, ctx.Err())
		}
	}
}

// fail notes the first failure.
func (g *Group) fail(name string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil || g.stopping {
		return
	}
	if err == nil {
		err = errors.New("ended although nobody stopped it")
	}
	g.err = &failure{name, err}
	close(g.done)
}

// failure is the end of a running component.
type failure struct {
	name string
	err  error
}

func (f *failure) Error() string { return f.name + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failureOf is the first failure as it is told of m: m's own goes without its name.
func (g *Group) failureOf(m *member) error {
	err := g.Err()
	if f, ok := errors.AsType[*failure](err); ok && f.name == m.Name {
		return f.err
	}
	return err
}

// Done is closed when a component fails while the group runs; Err has the reason.
func (g *Group) Done() <-chan struct{} { return g.done }

// Err is the first failure of a running component, nil if there was none.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Stop stops what runs in reverse order, each with its grace, and returns what went wrong. When ctx ends, the remaining
// components get no grace. Calling it again does nothing; calls wait for each other. Start has returned before.
func (g *Group) Stop(ctx context.Context) error {
	g.stopMu.Lock()
	defer g.stopMu.Unlock()
	g.mu.Lock()
	g.stopping = true
	g.mu.Unlock()
	var errs []error
	for i := len(g.order) - 1; i >= 0; i-- {
		if m := g.order[i]; m.started {
			m.started = false
			m.up.Store(false)
			if err := m.stop(ctx); err != nil {
				errs = append(errs, fmt.Errorf("stop %s: %w", m.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// stop spends one grace on both Stop and the return of Run. A component that overruns it keeps its goroutine; the group
// goes on, because others still have work to save.
func (m *member) stop(all context.Context) error {
	ctx, cancel := context.WithTimeout(all, m.Grace)
	defer cancel()
	var err error
	if m.Stop != nil {
		err = m.Stop(ctx)
	}
	m.cancel()
	select {
	case <-m.ended: // looked at first: a component that has ended is fine whatever the time
		return err
	default:
	}
	select {
	case <-m.ended:
	case <-ctx.Done():
		late := fmt.Errorf("still running after %s", m.Grace)
		if all.Err() != nil {
			late = errors.New("still running when its grace was cut short")
		}
		err = errors.Join(err, late)
	}
	return err
}

// Ready is nil if every component is, else an error that names those that are not.
func (g *Group) Ready(ctx context.Context) error {
	var lines []string
	for _, n := range g.NotReady(ctx) {
		lines = append(lines, n.Name+": "+n.Why)
	}
	if lines == nil {
		return nil
	}
	return errors.New(strings.Join(lines, "; "))
}

// NotReady names a component that is not ready.
type NotReady struct {
	// Name is the component's.
	Name string `json:"name"`
	// Why is one sentence.
	Why string `json:"why"`
}

// NotReady lists the components that are not ready, in start order. One that has not started, or was stopped, is not.
func (g *Group) NotReady(ctx context.Context) []NotReady {
	var list []NotReady
	for _, m := range g.order {
		if !m.up.Load() {
			list = append(list, NotReady{Name: m.Name, Why: "it does not run yet, or no longer"})
			continue
		}
		if m.Ready == nil {
			continue
		}
		if err := m.Ready(ctx); err != nil {
			list = append(list, NotReady{Name: m.Name, Why: err.Error()})
		}
	}
	return list
}
