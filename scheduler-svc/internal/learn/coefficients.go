// Package learn keeps what a router believes about the speed of each worker: a few coefficients of the step-time model,
// starting from a prior for the model and GPU and corrected by every settled request.
package learn

// Coefficients are a worker's step-time model, seconds per unit of work:
//
//	step = StepS + PrefillS*P + SeqS*D + KVS*K
//
// for P prefill tokens and D decoding sequences that read K tokens. All are non-negative.
type Coefficients struct {
	StepS    float64 // t0: fixed cost of an engine step
	PrefillS float64 // pf: per prefill token
	SeqS     float64 // dseq: per decoding sequence
	KVS      float64 // dkv: per KV token read
}

// Prior is the belief before the first settle: an H100-class worker with a 30B dense model. Being wrong by the same
// factor for all workers does not change a ranking by much; the first settles correct it.
func Prior() Coefficients {
	return Coefficients{StepS: 10.2e-3, PrefillS: 1.0 / 22_500, SeqS: 20e-6, KVS: 49e-9}
}

// Products are rounded before they are added (an explicit float64), here and wherever a cost or the simulator's
// clock depends on it: a fused multiply-add would give other digits on other machines.

// DecodeStepS predicts the duration of a step that decodes n sequences over kvTokens and prefills nothing.
func (c Coefficients) DecodeStepS(n, kvTokens int) float64 {
	return c.StepS + float64(c.SeqS*float64(n)) + float64(c.KVS*float64(kvTokens))
}

// StepBudgetTokens is vLLM's usual limit of tokens in one step, over which the fixed cost of a step is spread.
const StepBudgetTokens = 8192

// PrefillRate predicts the prompt tokens prefilled per second beside n requests over kvTokens: full steps, each of
// which also decodes.
func (c Coefficients) PrefillRate(n, kvTokens int) float64 {
	step := float64(c.PrefillS*StepBudgetTokens) + c.DecodeStepS(n, kvTokens)
	if step <= 0 {
		return 0
	}
	return StepBudgetTokens / step
}
