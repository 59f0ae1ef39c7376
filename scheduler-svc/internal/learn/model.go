package learn

// Prefill is what a settled request says about prefill.
type Prefill struct {
	Seconds  float64 // dispatch to first token
	Tokens   int     // queued before it and its own, by the worker's own count of cached tokens where there is one
	Inflight int     // at dispatch
	KVTokens int     // at dispatch
}

// Decode is what a settled request says about decoding.
type Decode struct {
	Seconds       float64 // per token after the first
	Inflight      float64 // mean over the answer
	KVTokens      float64 // mean over the answer
	PrefillTokens float64 // of other requests, prefilled per token of this answer
}

// Model learns the coefficients of one worker. It is not safe for concurrent use.
type Model struct {
	prior   Coefficients
	current Coefficients
	prefill regression // pf; half steps of alignment, which are not used further
	decode  regression // t0, dseq, dkv
}

// ownShare is the least part of a measured time that must be what is learnt: with less, the sample says more of the
// other coefficients' errors than of its own.
const ownShare = 0.4

// NewModel starts from the prior. A coefficient that the prior has at zero stays zero.
func NewModel(prior Coefficients) *Model {
	return &Model{prior: prior, current: prior, prefill: newRegression(2), decode: newRegression(3)}
}

// Coefficients returns the present belief.
func (m *Model) Coefficients() Coefficients { return m.current }

// ObservePrefill learns pf. The steps that the tokens take also decode, and the step under way at dispatch comes first.
func (m *Model) ObservePrefill(p Prefill) {
	step := m.current.DecodeStepS(p.Inflight, p.KVTokens)
	shared := step * (1 + float64(p.Tokens)/StepBudgetTokens)
	y := p.Seconds - shared
	if p.Tokens <= 0 || y < ownShare*p.Seconds {
		return
	}
	m.prefill.add([terms]float64{m.prior.PrefillS * float64(p.Tokens), m.prior.StepS}, y)
	m.current.PrefillS = m.prior.PrefillS * m.prefill.theta[0]
}

// ObserveDecode learns t0, dseq and dkv from what is left of a token's time after the prefills that shared its steps.
func (m *Model) ObserveDecode(d Decode) {
	y := d.Seconds - float64(d.PrefillTokens*m.current.PrefillS)
	if y < ownShare*d.Seconds {
		return
	}
	m.decode.add([terms]float64{
		m.prior.StepS, m.prior.SeqS * d.Inflight, m.prior.KVS * d.KVTokens,
	}, y)
	m.current.StepS = m.prior.StepS * m.decode.theta[0]
	m.current.SeqS = m.prior.SeqS * m.decode.theta[1]
	m.current.KVS = m.prior.KVS * m.decode.theta[2]
}

// Quality is how well the model predicts.
type Quality struct {
	PrefillSamples, DecodeSamples int
	PrefillMAPE, DecodeMAPE       float64 // mean absolute error as a share of the measured time, recent samples
}

// Quality reports the recent errors of prediction.
func (m *Model) Quality() Quality {
	return Quality{
		PrefillSamples: m.prefill.samples, DecodeSamples: m.decode.samples,
		PrefillMAPE: m.prefill.mape, DecodeMAPE: m.decode.mape,
	}
}
