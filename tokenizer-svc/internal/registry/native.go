package registry

import (
	"sync/atomic"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hf"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/segment"
)

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

// Open loads both engines and checks them against each other. Only the reference must load.
func (n *Native) Open(spec Spec, def *definition.Definition) (*model.Model, error) {
	reference, err := n.load(hf.Reference, def)
	if err != nil {
		return nil, describe(spec, err)
	}
	parts := model.Parts{
		Name: spec.Name, Reference: reference, Definition: def, Vocabulary: reference.VocabSize(),
		Cache: n.Cache, Owner: n.loads.Add(1),
	}
	if n.ReferenceOnly {
		parts.FastRefused = "the configuration asks for the reference engine"
	} else if fast, err := n.load(hf.Fast, def); err != nil {
		parts.FastRefused = err.Error()
	} else {
		parts.Fast = fast
	}
	return model.New(parts)
}

func (n *Native) load(kind hf.Kind, def *definition.Definition) (*hf.Engine, error) {
	if def.Ranks != nil {
		return hf.LoadTiktoken(kind, def.Ranks, def.Spec, n.Threads)
	}
	return hf.Load(kind, def.JSON, n.Threads)
}
