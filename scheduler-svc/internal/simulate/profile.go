package simulate

import (
	"fmt"
	"strings"
)

// Profile is the step-time model and the limits of one kind of worker. Times are seconds per unit of work.
type Profile struct {
	Name        string
	StepS       float64 // t0: fixed cost of a step
	PrefillS    float64 // pf: per prefill token
	PrefillCtxS float64 // pf2: per prefill token and token of its context
	SeqS        float64 // dseq: per decoding sequence
	KVS         float64 // dkv: per KV token a decode reads
	BudgetToks  int     // most tokens in one step
	MaxSeqs     int     // most running sequences
	BlockTokens int
	KVTokens    int // capacity of the cache
}

// Profiles lists the workers the project has figures for. Prefill rates of the Llama and Qwen3-14B rows come from
// published 8,192-token prefills, their decode terms from published inter-token latencies at one batch size each.
func Profiles() []Profile {
	vllm := Profile{BudgetToks: 8192, MaxSeqs: 256, BlockTokens: 16}
	with := func(name string, kv int, c [5]float64) Profile {
		p := vllm
		p.Name, p.KVTokens = name, kv
		p.StepS, p.PrefillS, p.PrefillCtxS, p.SeqS, p.KVS = c[0], c[1], c[2], c[3], c[4]
		return p
	}
	smg := with("smg-rig", 524_288, [5]float64{6e-3, 1.0 / 8000, 0, 350e-6, 0})
	smg.BudgetToks = 2048
	rtx := with("rtx-pro-6000-qwen3-32b", 1<<40, [5]float64{25.4e-3, 160e-6, 0.845e-9, 144e-6, 127e-9})
	rtx.BudgetToks, rtx.MaxSeqs = 2048, 128
	return []Profile{
		with("h100x2-qwen3-32b", 307_328, [5]float64{10.2e-3, 1.0 / 22_500, 0.22e-9, 20e-6, 49e-9}),
		with("h100x4-llama-3.1-70b", 461_376, [5]float64{16.0e-3, 58e-6, 0.25e-9, 20e-6, 40e-9}),
		with("h100-llama-3.1-8b", 430_000, [5]float64{6.8e-3, 26e-6, 0.12e-9, 15e-6, 78e-9}),
		with("h100-qwen3-14b", 300_000, [5]float64{12.0e-3, 49e-6, 0.15e-9, 18e-6, 60e-9}),
		with("a100-llama-3.1-8b", 400_000, [5]float64{10.4e-3, 102e-6, 0.35e-9, 20e-6, 90e-9}),
		smg,
		rtx,
	}
}

// ProfileNamed returns the profile of that name; the error lists the names.
func ProfileNamed(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("profile %q is unknown, want one of %s", name, strings.Join(names, ", "))
}
