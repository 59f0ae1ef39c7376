package vllm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Life is what a worker is able to do.
type Life uint8

const (
	// Starting: its port refuses connections, or it does not list a model yet.
	Starting Life = iota
	// Ready: it generates.
	Ready
	// Asleep: sleeping or paused. Its health is good and requests would hang.
	Asleep
	// Sick: it answers wrongly, or no longer.
	Sick
)

const (
	// slowEvery separates the questions whose answers change rarely: models, health, pause.
	slowEvery = time.Second
	// failuresMax is how many calls in a row may fail before a worker is sick: one can hit a long step.
	failuresMax = 3
	// suspectTimeout bounds what is asked after a call failed, so that a process that stands still is sick after four
	// seconds; vLLM answers /metrics within one while it computes.
	suspectTimeout = time.Second
	// sequencesTimeout bounds the question that a vLLM looks at its environment for.
	sequencesTimeout = 30 * time.Second
)

// View is what is known of a worker now.
type View struct {
	Life   Life
	Detail string
	// Suspect is true after a call that failed: the next answer decides what the worker is.
	Suspect bool
	// Generation grows when the worker is found anew: at the start and after it was gone.
	Generation uint64
	Models     []Model
	Version    string
	// Sources is how the ranks publish; nil when the server does not tell.
	Sources     []Source
	RuntimeLoRA bool
	// MaxSequences is 0 until the server has told, if it does.
	MaxSequences uint32
	Metrics      Metrics
	// MetricsAt is when Metrics was read; zero before the first time.
	MetricsAt time.Time
}

// Busy is true while requests run or wait.
func (v *View) Busy() bool {
	for _, r := range v.Metrics.Ranks {
		if r.Running+r.Waiting > 0 {
			return true
		}
	}
	return false
}

// Watcher keeps a View. It belongs to one goroutine.
type Watcher struct {
	client   *Client
	clock    func() time.Time
	view     View
	found    bool
	failures int
	slowAt   time.Time
	paused   bool
	health   error
	flags    bool
	reread   bool

	sequences chan uint32 // what an asker found, one value
	askers    sync.WaitGroup
}

// NewWatcher watches a server.
func NewWatcher(client *Client, clock func() time.Time) *Watcher {
	return &Watcher{client: client, clock: clock, view: View{Detail: "not asked yet"}}
}

// Wait returns when no question is under way. The steps' context must have ended.
func (w *Watcher) Wait() { w.askers.Wait() }

// Reread has the next step ask again where the worker publishes: nothing is heard at the addresses that it told, and a
// worker that restarted between two steps may have others.
func (w *Watcher) Reread() { w.reread = true }

// Step asks what is due and returns the view. It takes at most a few call timeouts.
func (w *Watcher) Step(ctx context.Context) View {
	select {
	case w.view.MaxSequences = <-w.sequences:
	default:
	}
	if err := w.ask(ctx); err != nil && ctx.Err() == nil {
		w.failed(err)
	} else if err == nil {
		w.failures = 0
		w.judge()
	}
	w.view.Suspect = w.failures > 0
	return w.view
}

// ask refreshes what is due.
func (w *Watcher) ask(ctx context.Context) error {
	if w.failures > 0 && w.found {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, suspectTimeout)
		defer cancel()
	}
	if !w.found {
		if err := w.discover(ctx); err != nil {
			return err
		}
	}
	m, err := w.client.Metrics(ctx)
	if err != nil {
		return err
	}
	if w.restarted(m) {
		w.found = false
		return w.discover(ctx)
	}
	if m.Asleep {
		m.rest()
	}
	w.view.Metrics, w.view.MetricsAt = m, w.clock()
	if w.reread {
		w.askSources(ctx)
	}
	if w.clock().Sub(w.slowAt) < slowEvery && !w.paused {
		return nil
	}
	w.slowAt = w.clock()
	return w.askSlow(ctx)
}

// askSources asks where the worker publishes; other addresses than before are those of another process. A failure says
// nothing: the question is put again while nothing is heard.
func (w *Watcher) askSources(ctx context.Context) {
	w.reread = false
	sources, err := w.client.Sources(ctx)
	if err != nil || slices.Equal(sources, w.view.Sources) {
		return
	}
	w.view.Sources = sources
	w.view.Generation++
}

// restarted is true when the process behind the port is another one.
func (w *Watcher) restarted(m Metrics) bool {
	old := w.view.Metrics.StartSeconds
	return old > 0 && m.StartSeconds > 0 && m.StartSeconds != old
}

// discover asks what only a new process changes.
func (w *Watcher) discover(ctx context.Context) error {
	models, err := w.client.Models(ctx)
	if err != nil {
		return err
	}
	if _, ok := Base(models); !ok {
		return errors.New("the worker lists no base model yet")
	}
	v := View{Generation: w.view.Generation + 1, Models: models}
	if v.Version, err = w.client.Version(ctx); err != nil && !errors.Is(err, ErrNoRoute) {
		return err
	}
	if v.Sources, err = w.client.Sources(ctx); err != nil && !notServed(err) {
		return err
	}
	if v.Metrics, err = w.client.Metrics(ctx); err != nil {
		return err
	}
	v.MetricsAt = w.clock()
	v.RuntimeLoRA = w.client.RuntimeLoRA(ctx)
	w.view, w.found, w.flags, w.slowAt = v, true, true, time.Time{}
	w.askSequences(ctx)
	return nil
}

// askSequences asks beside the steps: a vLLM in development mode looks at its whole environment first, which takes seconds
// in which the worker could work.
func (w *Watcher) askSequences(ctx context.Context) {
	answer := make(chan uint32, 1)
	w.sequences = answer
	w.askers.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, sequencesTimeout)
		defer cancel()
		answer <- w.client.MaxSequences(ctx)
	})
}

// notServed is true for routes that a server does not have, does not let us use, or answers with something else.
func notServed(err error) bool {
	var se *StatusError
	return errors.Is(err, ErrNoRoute) || errors.Is(err, errOdd) || errors.As(err, &se) && se.Status < 500
}

// askSlow refreshes models, health and pause.
func (w *Watcher) askSlow(ctx context.Context) error {
	models, err := w.client.Models(ctx)
	if err != nil {
		return err
	}
	w.view.Models = models
	w.health = w.client.Health(ctx)
	if !w.flags {
		return nil
	}
	w.paused, err = w.client.Flag(ctx, "/is_paused")
	if errors.Is(err, ErrNoRoute) {
		w.flags, w.paused = false, false
		return nil
	}
	return err
}

// failed decides what a failed call means. A refused connection is a worker that starts, or is gone: its next process
// is found anew.
func (w *Watcher) failed(err error) {
	w.failures++
	var se *StatusError
	switch {
	case Refused(err):
		w.found = false
		w.view.Life, w.view.Detail = Starting, "its port refuses connections: it loads its model, or is not there"
		w.view.Metrics.unload()
	case !w.found:
		w.view.Life, w.view.Detail = Starting, err.Error()
		if errors.As(err, &se) && (se.Status == 401 || se.Status == 403) {
			w.view.Life, w.view.Detail = Sick, fmt.Sprintf("%s: set the worker's api_key", se)
		}
	case w.failures >= failuresMax:
		w.view.Life, w.view.Detail = Sick, err.Error()
	}
}

// judge derives the life of a worker that answers.
func (w *Watcher) judge() {
	switch {
	case w.health != nil:
		w.view.Life, w.view.Detail = Sick, w.health.Error()
	case w.view.Metrics.Asleep:
		w.view.Life, w.view.Detail = Asleep, "the engine sleeps: POST /wake_up"
	case w.paused:
		w.view.Life, w.view.Detail = Asleep, "the engine is paused: POST /resume"
	default:
		w.view.Life, w.view.Detail = Ready, "generates"
	}
}
