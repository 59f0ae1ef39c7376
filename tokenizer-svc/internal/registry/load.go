package registry

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/source"
)

// errChanged is the outcome of a load whose files did not stand still.
var errChanged = errors.New("the model's files changed while they were read")

// refresh looks at a model and loads it if its files changed and stand still (package steady). A failed load leaves the
// model as it was.
func (r *Registry) refresh(ctx context.Context, e *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	// A model from the hub or a worker is asked for once; a new revision there comes with the next start.
	if (e.spec.Hub != "" || e.spec.Worker != "") && e.current.Load() != nil {
		return
	}
	start := time.Now()
	if e.spec.Worker != "" {
		loaded, err := r.cfg.Opener.OpenRemote(e.spec)
		r.settle(e, loaded, err, time.Since(start))
		return
	}
	dir, err := r.locate(ctx, e.spec)
	if err != nil && e.spec.Hub != "" {
		r.settle(e, nil, err, time.Since(start)) // no look: what is downloaded is read at once
		return
	}
	if !e.files.Look(stamp(dir, err)) {
		return
	}
	var loaded *model.Model
	if err == nil {
		loaded, err = r.open(e.spec, dir)
	}
	if !e.files.Took(stamp(r.located(e.spec, dir))) {
		if loaded != nil {
			loaded.Release()
		}
		loaded, err = nil, errChanged
	}
	r.settle(e, loaded, err, time.Since(start))
}

// locate returns the model's directory, which it downloads if it comes from a hub.
func (r *Registry) locate(ctx context.Context, spec Spec) (dir string, err error) {
	if spec.Hub == "" {
		return source.Directory(spec.Path, spec.Name, spec.Revision)
	}
	if r.cfg.Fetcher == nil {
		return "", errors.New("the model comes from a hub, but no hub is configured")
	}
	return r.cfg.Fetcher.Fetch(ctx, spec.Hub, spec.Revision)
}

// located is where the model is now, without downloading it again.
func (r *Registry) located(spec Spec, dir string) (string, error) {
	if spec.Hub != "" {
		return dir, nil
	}
	return source.Directory(spec.Path, spec.Name, spec.Revision)
}

// stamp tells one state of a model's files from another. A folder that is not there is a state too.
func stamp(dir string, err error) string {
	var mark uint64
	if err == nil {
		mark, err = source.Fingerprint(dir, definition.Files())
	}
	if err != nil {
		return err.Error()
	}
	return strconv.FormatUint(mark, 16)
}

// open reads the directory and loads the engines: the long part of a load.
func (r *Registry) open(spec Spec, dir string) (*model.Model, error) {
	def, err := definition.Read(dir)
	if err == nil && spec.Transformers4 {
		err = def.UseTransformers4(dir)
	}
	if err != nil {
		return nil, err
	}
	return r.cfg.Opener.Open(spec, def)
}

// settle publishes the outcome of an attempt.
func (r *Registry) settle(e *entry, loaded *model.Model, err error, took time.Duration) {
	if r.cfg.OnLoad != nil {
		r.cfg.OnLoad(e.spec.Name, took, err)
	}
	if err == nil {
		e.status.Store(&Status{Spec: e.spec, State: Ready})
		if old := e.current.Swap(loaded); old != nil {
			old.Release()
		}
		r.logLoaded(loaded, took)
		return
	}
	if e.current.Load() == nil {
		e.status.Store(&Status{Spec: e.spec, State: stateOf(err), Detail: err.Error()})
	}
	r.cfg.Log.Error("tokenizer not loaded", slog.String("model", e.spec.Name), slog.Any("error", err),
		slog.Bool("kept_old", e.current.Load() != nil))
}

// logLoaded writes the one line that tells what a model came out as.
func (r *Registry) logLoaded(m *model.Model, took time.Duration) {
	fast, fastWhy := m.Fast()
	segments, cutWhy := m.Segments()
	r.cfg.Log.Info("tokenizer loaded", slog.String("model", m.Name()), slog.Int("vocabulary", m.Vocabulary()),
		slog.Bool("fast_engine", fast), slog.String("fast_refused", fastWhy), slog.Bool("segment_cache", segments),
		slog.String("segments_refused", cutWhy), slog.Int64("load_ms", took.Milliseconds()))
}

// stateOf tells a refused format, which stays refused, from what may be mended.
func stateOf(err error) State {
	if errors.Is(err, definition.ErrUnsupported) {
		return Unsupported
	}
	return Failed
}
