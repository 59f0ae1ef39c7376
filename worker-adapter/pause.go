package workeradapter

import "time"

// pause finds out that an engine which was paused has kept its cache. vLLM tells a clear with the next step; a step that
// only hits tells nothing at all. So a step whose events must have been heard, with no clear among them, is the proof. It
// belongs to the service's loop.
type pause struct {
	seen   bool
	tokens float64 // computed when the pause was seen last
	// ran is when the first reading that shows a step since was taken, zero without one; at is the last reading.
	ran, at time.Time
}

// stands takes a reading of a paused engine.
func (p *pause) stands(r reading) { *p = pause{seen: true, tokens: r.OutputTokens, at: r.at} }

// over is true once for a pause, when the proof has stood for silenceAfter.
func (p *pause) over(r reading) bool {
	stood := r.at.Sub(p.at) > silencePause
	p.at = r.at
	switch {
	case !p.seen || r.OutputTokens <= p.tokens:
		return false
	case p.ran.IsZero() || stood:
		p.ran = r.at
	case r.at.Sub(p.ran) >= silenceAfter:
		*p = pause{}
		return true
	}
	return false
}
