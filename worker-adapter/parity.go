package workeradapter

import (
	"context"
	"time"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/parity"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

// probeRetry is the pause before a worker that was not ready is probed again.
const probeRetry = 2 * time.Second

// probe compares prompts once the worker is ready, again whenever it is found anew, and every so often. It ends with
// ctx.
func (s *Service) probe(ctx context.Context) {
	if s.deps.Template == nil || s.deps.Tokenizer == nil || s.cfg.Parity.Disabled {
		return
	}
	prober := parity.Prober{
		Worker: s.client, Template: s.deps.Template, Tokenizer: s.deps.Tokenizer, Clock: s.clock,
	}
	var generation uint64
	var at time.Time
	for ctx.Err() == nil {
		s.mu.Lock()
		v := s.view
		s.mu.Unlock()
		base, ok := vllm.Base(v.Models)
		due := v.Generation != generation || s.clock().Sub(at) >= s.cfg.Parity.Every
		if ok && v.Life == vllm.Ready && due {
			found := prober.Probe(ctx, base.ID, v.Version)
			generation, at = v.Generation, s.clock()
			s.mu.Lock()
			s.findings = found
			s.mu.Unlock()
			s.nudge()
		}
		s.pauseFor(ctx, probeRetry)
	}
}
