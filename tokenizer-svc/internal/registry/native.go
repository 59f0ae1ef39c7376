package registry

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hf"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/remote"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/segment"
)

var errReferenceOnly = errors.New("the configuration asks for the reference engine")

// Native opens models with the native engines.
type Native struct {
	// Threads bounds the fast engine.
	Threads *hf.Threads
	// Cache is shared by all models; nil turns segment caching off.
	Cache *segment.Cache
	// ReferenceOnly leaves the fast engine out.
	ReferenceOnly bool

	loads atomic.Uint64
}

// Open loads both engines, at the same time, and checks them against each other. Only the reference must load.
func (n *Native) Open(spec Spec, def *definition.Definition) (*model.Model, error) {
	var fast *hf.Engine
	fastErr := errReferenceOnly
	var group sync.WaitGroup
	if !n.ReferenceOnly {
		group.Go(func() { fast, fastErr = n.load(hf.Fast, def) })
	}
	reference, err := n.load(hf.Reference, def)
	group.Wait()
	if err != nil {
		if fastErr == nil {
			fast.Close()
		}
		return nil, fmt.Errorf("load tokenizer %q: %w", spec.Name, err)
	}
	parts := model.Parts{
		Name: spec.Name, Reference: reference, Definition: def, Vocabulary: reference.VocabSize(),
		Cache: n.Cache, Owner: n.loads.Add(1),
	}
	if fastErr != nil {
		parts.FastRefused = fastErr.Error()
	} else {
		parts.Fast = fast
	}
	return model.New(parts)
}

// OpenRemote makes a model of a worker's own tokenizer.
func (n *Native) OpenRemote(spec Spec) (*model.Model, error) {
	engine := remote.New(spec.Worker, spec.Name)
	if err := engine.Check(); err != nil {
		engine.Close()
		return nil, fmt.Errorf("tokenizer %q of its worker: %w", spec.Name, err)
	}
	return model.New(model.Parts{
		Name: spec.Name, Reference: engine, Remote: true, FastRefused: "the worker encodes",
		Definition: &definition.Definition{}, Owner: n.loads.Add(1),
	})
}

// load loads one engine in the definition's format.
func (n *Native) load(kind hf.Kind, def *definition.Definition) (*hf.Engine, error) {
	if def.Ranks != nil {
		return hf.LoadTiktoken(kind, def.Ranks, def.Spec, n.Threads)
	}
	return hf.Load(kind, def.JSON, n.Threads)
}
