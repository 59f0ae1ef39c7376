package learn

import "math"

// terms is the largest number of coefficients one regression learns.
const terms = 3

// Constants of the regression. Features are scaled by the prior, so a coefficient of 1 is the prior and all have the
// same size.
const (
	priorSpread  = 0.6   // standard deviation of the belief in the prior
	noise        = 0.2   // standard deviation of a sample, as a share of the scale of errors
	forgetting   = 0.998 // weight of the past per sample: a memory of 500 settles
	clip         = 3.0   // errors beyond this many typical errors are cut to it
	least        = 0.02  // bounds of a coefficient in multiples of its prior
	most         = 50.0
	errorMemory  = 0.02 // weight of a sample in the typical error
	farthest     = 1e6  // a prediction this many times the measured time says that the sample is broken
	startSamples = 8    // samples before clipping: a wrong prior must not look like an outlier for ever
)

// regression is recursive least squares with forgetting over scaled features.
type regression struct {
	n       int // features in use
	theta   [terms]float64
	cov     [terms][terms]float64
	typical float64 // mean absolute error, relative to the prediction's scale
	mape    float64
	samples int
}

func newRegression(n int) regression {
	r := regression{n: n}
	for i := range n {
		r.theta[i] = 1
		r.cov[i][i] = priorSpread * priorSpread
	}
	return r
}

func (r *regression) predict(x [terms]float64) float64 {
	y := 0.0
	for i := range r.n {
		y += float64(r.theta[i] * x[i])
	}
	return y
}

// add learns that features x gave y, both in seconds. Samples that are not finite and positive are dropped. Errors
// are relative to y, so that long requests do not drown short ones.
func (r *regression) add(x [terms]float64, y float64) {
	if !(y > 0) || math.IsInf(y, 0) {
		return
	}
	for i := range r.n {
		x[i] /= y
		if !(x[i] >= 0 && x[i] <= farthest) {
			return
		}
	}
	e := 1 - r.predict(x)
	r.score(math.Abs(e))
	if limit := clip * r.typical; r.samples > startSamples && math.Abs(e) > limit {
		e = math.Copysign(limit, e)
	}
	r.update(x, e)
}

func (r *regression) score(abs float64) {
	r.samples++
	weight := max(errorMemory, 1/float64(r.samples))
	r.mape += float64(weight * (abs - r.mape))
	r.typical += float64(weight * (min(abs, 1) - r.typical))
}

// update is one step of the filter. The covariance never grows beyond the prior's: when samples lack spread, forgetting
// stops instead of making the next sample all-powerful.
func (r *regression) update(x [terms]float64, e float64) {
	var px [terms]float64
	s := noise * noise
	for i := range r.n {
		for j := range r.n {
			px[i] += float64(r.cov[i][j] * x[j])
		}
		s += float64(px[i] * x[i])
	}
	trace := 0.0
	for i := range r.n {
		gain := px[i] / s
		r.theta[i] = min(most, max(least, r.theta[i]+float64(gain*e)))
		for j := range r.n {
			r.cov[i][j] -= float64(gain * px[j])
		}
		trace += r.cov[i][i]
	}
	if trace/forgetting > float64(r.n)*priorSpread*priorSpread {
		return
	}
	for i := range r.n {
		for j := range r.n {
			r.cov[i][j] /= forgetting
		}
	}
}
