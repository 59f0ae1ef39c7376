package operation

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/dispatch"
	"github.com/kvmesh/kvmesh/gateway/internal/fleet"
	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

// Adapters says how LoRA adapters that nobody serves are loaded. An empty Path loads none.
type Adapters struct {
	// Path is where a worker finds an adapter; {name} stands for its name.
	Path string
	// Base is the model that adapters belong to.
	Base string
	// Workers is how many workers get an adapter.
	Workers int
	// MaxPerWorker bounds the adapters that a worker serves.
	MaxPerWorker int
	// Timeout bounds a load, the time until the fleet lists the adapter included.
	Timeout time.Duration
}

const (
	// maxLoads bounds loads at once: each is a read of a file at a worker that also generates.
	maxLoads = 4
	// failureMemory is how long a load that failed is not tried again, and maxFailures how many of them are kept.
	failureMemory = 10 * time.Second
	maxFailures   = 1024
)

// loader loads adapters on demand: one load per name at a time, whose waiters share its end.
type loader struct {
	s     *Service
	cfg   Adapters
	slots chan struct{}
	name  *regexp.Regexp // names that cannot leave the template's folder

	mu     sync.Mutex
	loads  map[string]*load
	failed map[string]failure
}

// load is one that runs; err is set before done closes.
type load struct {
	done chan struct{}
	err  error
}

// failure is a load that need not be tried again yet.
type failure struct {
	err   error
	until time.Time
}

func newLoader(s *Service, cfg Adapters) *loader {
	return &loader{
		s: s, cfg: cfg, slots: make(chan struct{}, maxLoads), loads: map[string]*load{}, failed: map[string]failure{},
		name: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`),
	}
}

// model loads the adapter that a request names and that nobody serves, never or no longer: a worker that starts again has
// lost what was loaded at run time. unknown is the fault otherwise.
func (l *loader) model(t *task, name string, unknown error) (fleet.Model, error) {
	id := name
	if real, ok := l.s.deps.Fleet.Alias(name); ok {
		id = real
	}
	reason := fault.ReasonOf(unknown)
	lost := reason == faultv1.Reason_REASON_NO_WORKER && l.s.deps.Fleet.WasAdapter(id)
	if l.cfg.Path == "" || reason != faultv1.Reason_REASON_MODEL_NOT_FOUND && !lost {
		return fleet.Model{}, unknown
	}
	if !l.name.MatchString(id) || strings.Contains(id, "..") {
		return fleet.Model{}, unknown
	}
	if err := t.in.Caller.MayUse(id); err != nil {
		return fleet.Model{}, err
	}
	if err := l.wait(t, id); err != nil {
		return fleet.Model{}, err
	}
	return l.s.deps.Fleet.Resolve(t.ctx, name)
}

// wait joins the load of a name, or starts it. A caller that leaves does not end it for the others.
func (l *loader) wait(t *task, id string) error {
	l.mu.Lock()
	if f, ok := l.failed[id]; ok {
		if l.s.deps.Clock().Before(f.until) {
			l.mu.Unlock()
			return f.err
		}
		delete(l.failed, id)
	}
	running := l.loads[id]
	if running == nil {
		running = &load{done: make(chan struct{})}
		l.loads[id] = running
		fields := l.s.cfg.Forward.Outgoing(t.in, "application/json")
		ctx := context.WithoutCancel(t.ctx)
		l.s.deps.Dispatcher.Background(func() { l.run(ctx, id, fields, running) })
	}
	l.mu.Unlock()
	select {
	case <-running.done:
		return running.err
	case <-t.ctx.Done():
		return fault.From(t.ctx.Err())
	}
}

// run is a load's goroutine.
func (l *loader) run(ctx context.Context, id string, fields []byte, r *load) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		r.err = l.load(ctx, id, fields)
		<-l.slots
	case <-ctx.Done():
		r.err = fault.From(ctx.Err())
	}
	l.mu.Lock()
	delete(l.loads, id)
	if r.err != nil && len(l.failed) < maxFailures {
		l.failed[id] = failure{r.err, l.s.deps.Clock().Add(failureMemory)}
	} else if r.err != nil {
		clear(l.failed)
	}
	l.mu.Unlock()
	close(r.done)
}

// load has workers load an adapter and waits until the fleet lists it.
func (l *loader) load(ctx context.Context, id string, fields []byte) error {
	view, err := l.s.deps.Scheduler.ListWorkers(ctx, &schedulerv1.ListWorkersRequest{})
	if err != nil {
		return fault.From(err)
	}
	chosen, err := l.choose(view.GetWorkers())
	if err != nil {
		return err
	}
	for _, w := range chosen {
		if err := l.at(ctx, w.GetCard(), id, fields); err != nil {
			return err
		}
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if v, err := l.s.deps.Fleet.Fresh(ctx); err == nil && v.Find(id) != nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fault.New(faultv1.Reason_REASON_NO_WORKER, "The adapter is loaded and not listed yet; try again.").
				WithRetryAfter(time.Second)
		}
	}
}

// choose picks the workers of the base model that have the fewest adapters.
func (l *loader) choose(all []*schedulerv1.WorkerView) ([]*schedulerv1.WorkerView, error) {
	var able []*schedulerv1.WorkerView
	closed, full := false, false
	for _, w := range all {
		c := w.GetCard()
		switch {
		case w.GetRank() > 0 || c.GetState() != workerv1.WorkerState_WORKER_STATE_READY || !serves(c, l.cfg.Base):
		case !c.GetCapabilities().GetRuntimeLora():
			closed = true
		case adapters(c) >= l.cfg.MaxPerWorker:
			full = true
		default:
			able = append(able, w)
		}
	}
	switch {
	case len(able) > 0:
	case full:
		return nil, fault.New(faultv1.Reason_REASON_OVERLOADED, "Every worker has as many adapters as it may.").
			WithRetryAfter(time.Minute)
	case closed:
		return nil, fault.New(faultv1.Reason_REASON_MODEL_NOT_FOUND, "Adapters cannot be loaded at run time: start vLLM with "+
			"--enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1.").WithParam("model")
	default:
		return nil, fault.New(faultv1.Reason_REASON_NO_WORKER, "No worker of the base model can take work now; try again.").
			WithRetryAfter(time.Second)
	}
	least := func(a, b *schedulerv1.WorkerView) int {
		return 1<<10*(adapters(a.GetCard())-adapters(b.GetCard())) + int(a.GetInflight()) - int(b.GetInflight())
	}
	slices.SortStableFunc(able, least)
	return able[:min(len(able), l.cfg.Workers)], nil
}

func serves(c *workerv1.WorkerCard, id string) bool {
	for _, m := range c.GetModels() {
		if m.GetId() == id {
			return true
		}
	}
	return false
}

// adapters is how many adapters a worker serves.
func adapters(c *workerv1.WorkerCard) int {
	n := 0
	for _, m := range c.GetModels() {
		if m.GetParent() != "" {
			n++
		}
	}
	return n
}

// at loads an adapter at one worker. One that has it already is content.
func (l *loader) at(ctx context.Context, c *workerv1.WorkerCard, id string, fields []byte) error {
	body := append([]byte(`{"lora_name":`), jsontext.Quote(id)...)
	body = append(body, `,"lora_path":`...)
	body = append(body, jsontext.Quote(strings.ReplaceAll(l.cfg.Path, "{name}", id))...)
	j := &dispatch.Job{
		Method: http.MethodPost, Path: "/v1/load_lora_adapter", Fields: fields, Form: append(body, '}'), Item: -1, Patient: true,
		Prompt: noPrompt(),
	}
	r := &schedulerv1.RouteResponse{HttpUrl: c.GetHttpUrl(), Target: &schedulerv1.Target{WorkerId: c.GetWorkerId()}}
	a, err := l.s.deps.Dispatcher.Direct(ctx, j, r)
	if err != nil {
		return fault.From(err)
	}
	defer a.Close(l.s.deps.Dispatcher, nil)
	switch {
	case a.OK() || strings.Contains(string(a.Body), "already been loaded"):
		return nil
	case a.Status == http.StatusNotFound:
		return fault.New(faultv1.Reason_REASON_MODEL_NOT_FOUND, "The model `%s` does not exist: the worker finds no such adapter.",
			id).WithParam("model")
	}
	return fault.New(faultv1.Reason_REASON_WORKER_FAILED, "The worker could not load the adapter `%s`.", id)
}
