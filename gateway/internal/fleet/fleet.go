// Package fleet knows which models the mesh serves: the scheduler's list, kept fresh, with aliases and the default
// model on top.
package fleet

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// Config names models.
type Config struct {
	// Aliases maps a name that clients use to a model's id.
	Aliases map[string]string
	// DefaultModel serves requests without a model, and with one that nobody knows. Empty: neither.
	DefaultModel string
	// Refresh is how often the list is read.
	Refresh time.Duration
	// Gateway is this process's name at the scheduler, unique per start. What it booked there ends with its questions.
	Gateway string
}

// lease is how long a gateway may ask nothing: questions of a busy machine come late, and a lease that ends too early
// makes its workers look idle.
func (c Config) lease() time.Duration { return max(5*time.Second, 5*c.Refresh) }

// maxRemembered bounds the ids that are remembered after their last worker left.
const maxRemembered = 4096

// staleAfter is how old the list may be when an unknown model is asked for; a younger one is believed.
const staleAfter = 100 * time.Millisecond

// Fleet answers which model a name means. Its methods may be used concurrently.
type Fleet struct {
	cfg     Config
	client  schedulerv1.SchedulerServiceClient
	clock   func() time.Time
	view    atomic.Pointer[View]
	loading sync.Mutex

	mu   sync.Mutex
	seen map[string]Model
}

// View is the list at one moment.
type View struct {
	// At is when it was read.
	At time.Time
	// Models is in the scheduler's order: by name.
	Models []*schedulerv1.FleetModel

	// Stalled is the workers that do not answer their adapters.
	Stalled []string
	// Resting is the workers that sleep or are paused while others can do their work.
	Resting []string

	byID  map[string]*schedulerv1.FleetModel
	bases []string
}

// Model is what a requested name means.
type Model struct {
	// ID is the name the worker knows.
	ID string
	// Base is the base model's first name; it names tokenizer and template, and its blocks are hashed by it.
	Base string
	// LoRA is the adapter's name, empty for the base model.
	LoRA string
	// Rename tells that the worker's body must carry ID instead of what the client sent.
	Rename bool
	// ReadyWorkers is how many can take work now.
	ReadyWorkers int
}

// New makes a fleet without a view.
func New(cfg Config, client schedulerv1.SchedulerServiceClient, clock func() time.Time) *Fleet {
	return &Fleet{cfg: cfg, client: client, clock: clock, seen: map[string]Model{}}
}

// Run keeps the view fresh until ctx ends. age is told how old the view is, stalled which workers stand still and which rest.
func (f *Fleet) Run(ctx context.Context, age func(time.Duration), stalled func(stalled, resting []string)) {
	tick := time.NewTicker(f.cfg.Refresh)
	defer tick.Stop()
	for {
		_, _ = f.load(ctx, 0)
		if v := f.view.Load(); v != nil {
			age(f.clock().Sub(v.At))
			stalled(v.Stalled, v.Resting)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// View is the newest list. Without one it is read now; the fault is then UNAVAILABLE.
func (f *Fleet) View(ctx context.Context) (*View, error) {
	if v := f.view.Load(); v != nil {
		return v, nil
	}
	return f.load(ctx, staleAfter)
}

// Fresh is a list that is at most staleAfter old, or the last one when the scheduler does not answer.
func (f *Fleet) Fresh(ctx context.Context) (*View, error) { return f.load(ctx, staleAfter) }

// load reads the list unless the present one is younger than fresh. A list that cannot be read leaves the last one.
func (f *Fleet) load(ctx context.Context, fresh time.Duration) (*View, error) {
	f.loading.Lock()
	defer f.loading.Unlock()
	old := f.view.Load()
	if old != nil && f.clock().Sub(old.At) < fresh {
		return old, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	resp, err := f.client.ListModels(ctx, &schedulerv1.ListModelsRequest{
		Gateway: f.cfg.Gateway, LeaseMs: uint32(f.cfg.lease().Milliseconds()),
	})
	if err != nil {
		if old != nil {
			return old, nil
		}
		return nil, fault.Wrap(faultv1.Reason_REASON_UNAVAILABLE, err, "The scheduler cannot be reached; try again.")
	}
	v := &View{
		At: f.clock(), Models: resp.GetModels(), Stalled: resp.GetStalledWorkers(), Resting: resp.GetRestingWorkers(),
		byID: make(map[string]*schedulerv1.FleetModel, len(resp.GetModels())),
	}
	for _, m := range v.Models {
		v.byID[m.GetId()] = m
		if m.GetParent() == "" && m.GetAliasOf() == "" {
			v.bases = append(v.bases, m.GetId())
		}
	}
	f.remember(old, v)
	f.view.Store(v)
	return v, nil
}

// remember keeps the ids that were served once: when their last worker dies they are out of workers, not unknown. An adapter
// that is not listed any more while its base model has lost no worker was unloaded, and is forgotten.
func (f *Fleet) remember(old, v *View) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old != nil {
		for _, m := range old.Models {
			base := v.byID[m.GetParent()]
			if v.byID[m.GetId()] == nil && base != nil && base.GetReadyWorkers() >= old.byID[m.GetParent()].GetReadyWorkers() {
				delete(f.seen, m.GetId())
			}
		}
	}
	for _, m := range v.Models {
		if _, ok := f.seen[m.GetId()]; ok || len(f.seen) < maxRemembered {
			f.seen[m.GetId()] = modelOf(m)
		}
	}
}

func modelOf(m *schedulerv1.FleetModel) Model {
	out := Model{ID: m.GetId(), Base: m.GetId(), ReadyWorkers: int(m.GetReadyWorkers())}
	switch {
	case m.GetParent() != "":
		out.Base, out.LoRA = m.GetParent(), m.GetId()
	case m.GetAliasOf() != "":
		out.Base = m.GetAliasOf()
	}
	return out
}

// Resolve finds the model that a request means. Faults: MODEL_NOT_FOUND, NO_WORKER, INVALID_REQUEST when no name was
// given and there are several, UNAVAILABLE.
func (f *Fleet) Resolve(ctx context.Context, name string) (Model, error) {
	v, err := f.View(ctx)
	if err != nil {
		return Model{}, err
	}
	if name == "" {
		return f.unnamed(v)
	}
	id := name
	if real, ok := f.cfg.Aliases[name]; ok {
		id = real
	}
	m, ok := f.find(v, id)
	if !ok {
		if v, err = f.Fresh(ctx); err != nil {
			return Model{}, err
		}
		m, ok = f.find(v, id)
	}
	if !ok {
		return f.unknown(v, name, id)
	}
	m.Rename = id != name
	return m, nil
}

func (f *Fleet) find(v *View, id string) (Model, bool) {
	m, ok := v.byID[id]
	if !ok {
		return Model{}, false
	}
	return modelOf(m), true
}

// unnamed picks the model of a request that names none.
func (f *Fleet) unnamed(v *View) (Model, error) {
	if f.cfg.DefaultModel != "" {
		if m, ok := f.find(v, f.cfg.DefaultModel); ok {
			m.Rename = true
			return m, nil
		}
	}
	switch len(v.bases) {
	case 0:
		return Model{}, NoWorker()
	case 1:
		m, _ := f.find(v, v.bases[0])
		return m, nil
	}
	return Model{}, fault.New(faultv1.Reason_REASON_INVALID_REQUEST,
		"'model' must be given: this server has %d models.", len(v.bases)).WithParam("model")
}

// unknown is the answer for a name that no live worker serves.
func (f *Fleet) unknown(v *View, name, id string) (Model, error) {
	if f.cfg.DefaultModel != "" && id != f.cfg.DefaultModel {
		if m, ok := f.find(v, f.cfg.DefaultModel); ok {
			m.Rename = true
			return m, nil
		}
	}
	f.mu.Lock()
	_, seen := f.seen[id]
	f.mu.Unlock()
	// Before any worker has come up nobody can say what there is no model of.
	if seen || len(v.Models) == 0 {
		return Model{}, NoWorker()
	}
	return Model{}, fault.New(faultv1.Reason_REASON_MODEL_NOT_FOUND, "The model `%.256s` does not exist.", name).WithParam("model")
}

// WasAdapter reports whether an id was an adapter when it was listed last.
func (f *Fleet) WasAdapter(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[id].LoRA != ""
}

// NoWorker is the fault of a request that nobody can serve at this moment.
func NoWorker() error {
	return fault.New(faultv1.Reason_REASON_NO_WORKER, "No worker that serves this model can take work now; try again.").
		WithRetryAfter(time.Second)
}

// ReadyWorkers is how many (model, worker) pairs can take work; 0 means that nobody can.
func (v *View) ReadyWorkers() int {
	n := 0
	for _, m := range v.Models {
		n += int(m.GetReadyWorkers())
	}
	return n
}

// Find is the entry of an id, nil when nobody serves it.
func (v *View) Find(id string) *schedulerv1.FleetModel { return v.byID[id] }

// AliasNames is the configured aliases in name order.
func (f *Fleet) AliasNames() []string {
	names := make([]string, 0, len(f.cfg.Aliases))
	for n := range f.cfg.Aliases {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Alias is the id that an alias means.
func (f *Fleet) Alias(name string) (string, bool) {
	id, ok := f.cfg.Aliases[name]
	return id, ok
}
