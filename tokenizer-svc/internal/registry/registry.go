// Package registry holds the tokenizers of a deployment. Each model loads on its own goroutine, so one that is slow or
// broken holds up no other; a model whose files change is loaded again beside the old one, which answers until its
// last request is done.
package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvmesh/kvmesh/services/kit/steady"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
)

// Spec is one configured model. One of Path, Hub and Worker is set.
type Spec struct {
	// Name is the model id of requests.
	Name string
	// Path is a model directory, a Hugging Face cache folder, or a cache root.
	Path string
	// Hub is the model's name on the hub.
	Hub string
	// Revision is a branch, tag or commit; empty means main.
	Revision string
	// Transformers4 says that the workers run transformers 4, which adds BOS for some classes by itself.
	Transformers4 bool
	// Worker is the base address of a worker that tokenises.
	Worker string
}

// State is where a model is in its life.
type State int

const (
	// Loading says that the first load has not ended.
	Loading State = iota
	// Ready says that the model answers.
	Ready
	// Failed says that files are missing or damaged; the load is tried again.
	Failed
	// Unsupported says that the format is refused by name.
	Unsupported
)

// Status is a model's state, and why it is not ready.
type Status struct {
	Spec   Spec
	State  State
	Detail string
}

// ErrUnknown says that no such model is configured.
var ErrUnknown = errors.New("no tokenizer is configured for this model")

// NotReadyError says why a configured model does not answer now.
type NotReadyError struct{ Status Status }

// Error gives the model, its state and the reason.
func (e *NotReadyError) Error() string {
	if e.Status.State == Loading {
		return fmt.Sprintf("the tokenizer of %q is loading", e.Status.Spec.Name)
	}
	return fmt.Sprintf("the tokenizer of %q is not usable: %s", e.Status.Spec.Name, e.Status.Detail)
}

// Opener turns a definition into a model.
type Opener interface {
	Open(spec Spec, def *definition.Definition) (*model.Model, error)
	// OpenRemote makes a model of what spec.Worker serves.
	OpenRemote(spec Spec) (*model.Model, error)
}

// Fetcher downloads a model and returns its directory.
type Fetcher interface {
	Fetch(ctx context.Context, name, revision string) (string, error)
}

// Config is what a registry needs.
type Config struct {
	Specs  []Spec
	Opener Opener
	// Fetcher is nil when no model comes from a hub.
	Fetcher Fetcher
	// Interval is the time between looks for changed files; 0 or less never looks at a model that was loaded once.
	Interval time.Duration
	// OnLoad is called after each attempt to load, from the loading goroutine.
	OnLoad func(name string, took time.Duration, err error)
	Log    *slog.Logger
}

// Registry is safe for concurrent use. Run owns all its goroutines.
type Registry struct {
	cfg     Config
	entries map[string]*entry
	names   []string
	loaded  chan struct{}
}

// entry is one model. mu is held while it loads; requests read current and status without it.
type entry struct {
	spec    Spec
	current atomic.Pointer[model.Model]
	status  atomic.Pointer[Status]
	mu      sync.Mutex
	files   steady.Files
}

// New returns a registry whose models are Loading until Run loads them. Names must be unique.
func New(cfg Config) (*Registry, error) {
	r := &Registry{cfg: cfg, entries: map[string]*entry{}, loaded: make(chan struct{})}
	for _, spec := range cfg.Specs {
		if r.entries[spec.Name] != nil {
			return nil, fmt.Errorf("the model %q is configured twice", spec.Name)
		}
		e := &entry{spec: spec}
		e.status.Store(&Status{Spec: spec})
		r.entries[spec.Name] = e
		r.names = append(r.names, spec.Name)
	}
	slices.Sort(r.names)
	return r, nil
}

// Run loads every model, then looks for changes until ctx ends, then releases the models.
func (r *Registry) Run(ctx context.Context) {
	defer r.release()
	var first, all sync.WaitGroup
	first.Add(len(r.entries))
	for _, e := range r.entries {
		all.Go(func() {
			r.refresh(ctx, e)
			first.Done()
			r.watch(ctx, e)
		})
	}
	first.Wait()
	close(r.loaded)
	all.Wait()
}

// untilReady is the time between looks at a model that is not in use yet, where no interval is set.
const untilReady = 5 * time.Second

// watch looks for changes of one model until ctx ends.
func (r *Registry) watch(ctx context.Context, e *entry) {
	every := r.cfg.Interval
	if every <= 0 {
		every = untilReady
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if r.cfg.Interval <= 0 && e.current.Load() != nil {
			<-ctx.Done()
			return
		}
		select {
		case <-tick.C:
			r.refresh(ctx, e)
		case <-ctx.Done():
			return
		}
	}
}

// Reload looks at every model once, loads those whose files changed and stand still, and returns when all are done.
func (r *Registry) Reload(ctx context.Context) {
	var group sync.WaitGroup
	for _, e := range r.entries {
		group.Go(func() { r.refresh(ctx, e) })
	}
	group.Wait()
}

// release gives the current models back; those that requests hold close after them.
func (r *Registry) release() {
	for _, e := range r.entries {
		if m := e.current.Swap(nil); m != nil {
			m.Release()
		}
	}
}

// Loaded is closed once every model's first load has ended, well or not.
func (r *Registry) Loaded() <-chan struct{} { return r.loaded }

// Acquire returns a model that stays usable until Release. Errors are ErrUnknown or a *NotReadyError.
func (r *Registry) Acquire(name string) (*model.Model, error) {
	e := r.entries[name]
	if e == nil {
		return nil, ErrUnknown
	}
	for {
		m := e.current.Load()
		if m == nil {
			return nil, &NotReadyError{Status: *e.status.Load()}
		}
		if m.Retain() {
			return m, nil
		}
	}
}

// List returns the status of every model in name order.
func (r *Registry) List() []Status {
	out := make([]Status, len(r.names))
	for i, name := range r.names {
		out[i] = *r.entries[name].status.Load()
	}
	return out
}
