package registry

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/source"
)

// refresh loads a model if its files are not those of the last attempt. A failed load leaves the model as it was.
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
	dir, mark, err := r.locate(ctx, e.spec)
	if err == nil && mark == e.fingerprint {
		return
	}
	var loaded *model.Model
	if err == nil {
		e.fingerprint = mark
		loaded, err = r.open(e.spec, dir)
	}
	r.settle(e, loaded, err, time.Since(start))
}

// locate returns the model's directory and a mark of its files' state.
func (r *Registry) locate(ctx context.Context, spec Spec) (dir string, mark uint64, err error) {
	if spec.Hub != "" {
		if r.cfg.Fetcher == nil {
			return "", 0, errors.New("the model comes from a hub, but no hub is configured")
		}
		dir, err = r.cfg.Fetcher.Fetch(ctx, spec.Hub, spec.Revision)
	} else {
		dir, err = source.Directory(spec.Path, spec.Name, spec.Revision)
	}
	if err != nil {
		return "", 0, err
	}
	mark, err = source.Fingerprint(dir, definition.Files())
	return dir, mark, err
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
