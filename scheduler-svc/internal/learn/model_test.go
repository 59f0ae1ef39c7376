package learn

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// truth makes samples of a worker with the given coefficients and relative noise.
type truth struct {
	c     Coefficients
	noise float64
	rng   *rand.Rand
}

func (w truth) jitter() float64 { return 1 + w.noise*w.rng.NormFloat64() }

func (w truth) prefill() Prefill {
	p := Prefill{Tokens: 2000 + w.rng.IntN(40_000), Inflight: w.rng.IntN(40), KVTokens: w.rng.IntN(300_000)}
	step := w.c.DecodeStepS(p.Inflight, p.KVTokens)
	seconds := w.c.PrefillS*float64(p.Tokens) + step*(1+float64(p.Tokens)/StepBudgetTokens)
	p.Seconds = seconds * w.jitter()
	return p
}

func (w truth) decode() Decode {
	d := Decode{Inflight: w.rng.Float64() * 200, KVTokens: w.rng.Float64() * 600_000, PrefillTokens: w.rng.Float64() * 100}
	d.Seconds = w.c.StepS + w.c.SeqS*d.Inflight + w.c.KVS*d.KVTokens + w.c.PrefillS*d.PrefillTokens
	d.Seconds *= w.jitter()
	return d
}

func teach(m *Model, w truth, n int) {
	for range n {
		m.ObserveDecode(w.decode())
		m.ObservePrefill(w.prefill())
	}
}

func requireNear(t *testing.T, want, got Coefficients, share float64) {
	t.Helper()
	require.InEpsilon(t, want.PrefillS, got.PrefillS, share, "pf")
	for _, load := range [][2]int{{1, 1000}, {50, 200_000}, {150, 500_000}} {
		require.InEpsilon(t, want.DecodeStepS(load[0], load[1]), got.DecodeStepS(load[0], load[1]), share, "step at %v", load)
	}
}

func TestLearnsAWorkerFarFromThePrior(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		by   Coefficients // factors on the prior
	}{
		{"as believed", Coefficients{1, 1, 1, 1}},
		{"three times slower", Coefficients{3, 3, 3, 3}},
		{"three times faster", Coefficients{0.33, 0.33, 0.33, 0.33}},
		{"slow prefill, fast decode", Coefficients{0.5, 4, 0.5, 0.5}},
		{"heavy attention", Coefficients{1, 1, 1, 5}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := Prior()
			w := truth{
				c:     Coefficients{p.StepS * row.by.StepS, p.PrefillS * row.by.PrefillS, p.SeqS * row.by.SeqS, p.KVS * row.by.KVS},
				noise: 0.05, rng: rand.New(rand.NewPCG(5, 5)),
			}
			m := NewModel(p)
			teach(m, w, 400)
			requireNear(t, w.c, m.Coefficients(), 0.15)
			q := m.Quality()
			require.Less(t, q.PrefillMAPE, 0.12)
			require.Less(t, q.DecodeMAPE, 0.12)
			require.Greater(t, q.DecodeSamples, 300)
			require.Positive(t, q.PrefillSamples)
		})
	}
}

func TestOutliersBarelyMoveTheModel(t *testing.T) {
	t.Parallel()
	w := truth{c: Prior(), noise: 0.05, rng: rand.New(rand.NewPCG(1, 2))}
	m := NewModel(Prior())
	teach(m, w, 300)
	for range 15 {
		p := w.prefill()
		p.Seconds *= 50
		m.ObservePrefill(p)
		d := w.decode()
		d.Seconds *= 50
		m.ObserveDecode(d)
	}
	requireNear(t, Prior(), m.Coefficients(), 0.35)
	teach(m, w, 200)
	requireNear(t, Prior(), m.Coefficients(), 0.12)
}

func TestFollowsAChangeOfSpeed(t *testing.T) {
	t.Parallel()
	w := truth{c: Prior(), noise: 0.05, rng: rand.New(rand.NewPCG(9, 2))}
	m := NewModel(Prior())
	teach(m, w, 2000)
	w.c.PrefillS *= 2
	w.c.KVS *= 2
	w.c.StepS *= 2
	w.c.SeqS *= 2
	teach(m, w, 1500)
	requireNear(t, w.c, m.Coefficients(), 0.2)
}

func TestSamplesWithoutSpreadDoNotUnsettleIt(t *testing.T) {
	t.Parallel()
	w := truth{c: Prior(), noise: 0.03, rng: rand.New(rand.NewPCG(3, 2))}
	m := NewModel(Prior())
	teach(m, w, 300)
	for range 20_000 {
		d := Decode{Inflight: 10, KVTokens: 50_000}
		d.Seconds = w.c.DecodeStepS(10, 50_000) * w.jitter()
		m.ObserveDecode(d)
	}
	teach(m, w, 30)
	requireNear(t, w.c, m.Coefficients(), 0.3)
}

func TestStaysFiniteAndPositiveOnAnything(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 8))
	m := NewModel(Prior())
	odd := []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e-300, 1e300, 1, 1e-3}
	pick := func() float64 { return odd[rng.IntN(len(odd))] }
	for range 20_000 {
		m.ObservePrefill(Prefill{Seconds: pick(), Tokens: rng.IntN(3) * rng.IntN(1<<30), Inflight: rng.IntN(1000), KVTokens: rng.IntN(1 << 30)})
		m.ObserveDecode(Decode{Seconds: pick(), Inflight: pick(), KVTokens: pick(), PrefillTokens: pick()})
		c := m.Coefficients()
		for _, x := range []float64{c.StepS, c.PrefillS, c.SeqS, c.KVS} {
			require.True(t, x > 0 && !math.IsInf(x, 0), "%+v", c)
		}
	}
}

func TestPrefillRate(t *testing.T) {
	t.Parallel()
	c := Prior()
	require.InEpsilon(t, 8192/(8192/22_500.0+0.0102), c.PrefillRate(0, 0), 1e-9)
	require.Less(t, c.PrefillRate(100, 500_000), c.PrefillRate(10, 50_000))
	require.Zero(t, Coefficients{}.PrefillRate(10, 10))
}

func BenchmarkObserve(b *testing.B) {
	w := truth{c: Prior(), noise: 0.05, rng: rand.New(rand.NewPCG(1, 2))}
	m := NewModel(Prior())
	p, d := w.prefill(), w.decode()
	b.ReportAllocs()
	for b.Loop() {
		m.ObservePrefill(p)
		m.ObserveDecode(d)
	}
}
