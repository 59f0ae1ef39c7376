package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Profile holds the coefficients of the step-time model, in seconds per unit of the named quantity:
// step = Base + Prefill*P + PrefillContext*sum(p_i*ctx_i) + Sequence*D + Read*K, with P the prefill tokens of the
// step, p_i and ctx_i a chunk's length and mean context, D the decoding sequences and K the KV tokens they read.
type Profile struct {
	Base           float64 `yaml:"base_s"`
	Prefill        float64 `yaml:"prefill_s"`
	PrefillContext float64 `yaml:"prefill_context_s"`
	Sequence       float64 `yaml:"sequence_s"`
	Read           float64 `yaml:"read_s"`
}

// Load is one step's work in the terms of Profile.
type Load struct {
	PrefillTokens  int
	PrefillContext float64
	Sequences      int
	ReadTokens     int
}

// Duration is the model's time for a step; speedup > 0 divides it, 0 makes steps take no time.
func (p Profile) Duration(l Load, speedup float64) time.Duration {
	if speedup <= 0 {
		return 0
	}
	s := p.Base + p.Prefill*float64(l.PrefillTokens) + p.PrefillContext*l.PrefillContext +
		p.Sequence*float64(l.Sequences) + p.Read*float64(l.ReadTokens)
	return time.Duration(s / speedup * float64(time.Second))
}

// profiles are fits to published or measured figures: h100x2-qwen3-32b to a published benchmark of that pair,
// rtxpro6000-qwen3-32b to 300 measured requests (TTFT and TPOT within 3 %), the others to an anchor of 8,192 prefill
// tokens and one decode step each.
func profiles() map[string]Profile {
	return map[string]Profile{
		"h100x2-qwen3-32b":     {10.2e-3, 1.0 / 22500, 0.22e-9, 20e-6, 49e-9},
		"rtxpro6000-qwen3-32b": {25.4e-3, 160e-6, 0.845e-9, 144e-6, 127e-9},
		"h100x4-llama-70b":     {16e-3, 59.9e-6, 0.2e-9, 40e-6, 30e-9},
		"h100-llama-8b":        {6.7e-3, 25e-6, 0.5e-9, 15e-6, 78e-9},
		"a100-llama-8b":        {10e-3, 100e-6, 0.8e-9, 30e-6, 100e-9},
		"smg-rig":              {6e-3, 125e-6, 0, 0.35e-3, 0},
	}
}

// ProfileByName returns a built-in profile; the error names all of them.
func ProfileByName(name string) (Profile, error) {
	all := profiles()
	if p, ok := all[name]; ok {
		return p, nil
	}
	return Profile{}, fmt.Errorf("unknown profile %q: want one of %v", name, slices.Sorted(maps.Keys(all)))
}
