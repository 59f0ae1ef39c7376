package fleet

import (
	"slices"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/learn"
)

// peerSamples is how many settles of each kind a target needs before others believe its speed; with fewer the model of it
// does not yet tell outliers from a wrong prior.
const peerSamples = 8

// believe gives ranks that have settled nothing yet the speed which others of their model have learnt: the median of each
// coefficient. In a fleet that is faster or slower than the general prior a new worker would otherwise be shunned or flooded
// until its first settles. The lock is held, the view is new.
func (f *Fleet) believe(w *worker) {
	var learnt []learn.Coefficients
	for _, m := range w.card.GetModels() {
		if m.GetParent() != "" {
			continue // adapters run at their base model's speed
		}
		for _, t := range f.view.Load().Pools[m.GetId()].Targets {
			if c, q := t.Quality(); q.PrefillSamples >= peerSamples && q.DecodeSamples >= peerSamples {
				learnt = append(learnt, c)
			}
		}
	}
	if len(learnt) == 0 {
		return
	}
	prior := learn.Coefficients{
		StepS:    median(learnt, func(c learn.Coefficients) float64 { return c.StepS }),
		PrefillS: median(learnt, func(c learn.Coefficients) float64 { return c.PrefillS }),
		SeqS:     median(learnt, func(c learn.Coefficients) float64 { return c.SeqS }),
		KVS:      median(learnt, func(c learn.Coefficients) float64 { return c.KVS }),
	}
	for _, t := range w.ranks {
		t.suppose(prior)
	}
}

// median is the lower of the middle values of one coefficient.
func median(of []learn.Coefficients, one func(learn.Coefficients) float64) float64 {
	values := make([]float64, len(of))
	for i, c := range of {
		values[i] = one(c)
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// suppose sets the belief in a target's speed while nothing was learnt of it.
func (t *Target) suppose(prior learn.Coefficients) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.book.Model().Quality(); q.PrefillSamples == 0 && q.DecodeSamples == 0 {
		t.book.Suppose(prior)
	}
}
