package flight

import (
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Telemetry is the gateway's metrics and its request log. Labels are bounded: operations, certainties and reasons are
// fixed words, statuses are three digits; models and tenants are none.
type Telemetry struct {
	log      *slog.Logger
	clock    func() time.Time
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	ttft     *prometheus.HistogramVec
	inflight prometheus.Gauge
	queued   prometheus.Gauge
	routes   *prometheus.CounterVec
	attempts *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	kinds    [4]prometheus.Counter // of tokens, in the order of tokenKinds
	ops      sync.Map              // operation -> *boundOperation; operations are fixed words
	skipped  *prometheus.CounterVec
	fleetAge prometheus.Gauge
	hedges   *prometheus.CounterVec
	resumed  *prometheus.CounterVec
}

// New registers the metrics. A registerer of nil keeps them to itself.
func New(log *slog.Logger, reg prometheus.Registerer, clock func() time.Time) *Telemetry {
	t := &Telemetry{log: log, clock: clock}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kvmesh_gateway_" + name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "kvmesh_gateway_" + name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		opts := prometheus.HistogramOpts{Name: "kvmesh_gateway_" + name, Help: help, Buckets: buckets}
		return prometheus.NewHistogramVec(opts, []string{"operation"})
	}
	t.requests = counter("requests_total", "Requests by operation and HTTP status.", "operation", "status")
	t.duration = histogram("request_duration_seconds", "First byte in to last byte out.",
		prometheus.ExponentialBuckets(0.001, 2.5, 14))
	t.ttft = histogram("time_to_first_token_seconds", "Dispatch to the worker's first event or answer.",
		prometheus.ExponentialBuckets(0.001, 2, 16))
	t.inflight = gauge("inflight_requests", "Requests that are being served.")
	t.queued = gauge("queued_requests", "Requests that wait for a place.")
	t.routes = counter("routes_total", "Routed prompts by certainty and why it is not exact.", "certainty", "reason")
	t.attempts = counter("attempts_total", "Calls to workers by how they ended.", "outcome")
	t.tokens = counter("tokens_total", "Tokens by kind: prompt, predicted_hit, cached, output.", "kind")
	for i, kind := range tokenKinds() {
		t.kinds[i] = t.tokens.WithLabelValues(kind)
	}
	t.skipped = counter("prompt_skips_total", "Prompts that were not rendered or tokenised in time, by stage.", "stage")
	t.fleetAge = gauge("fleet_view_age_seconds", "Age of the list of models.")
	t.hedges = counter("hedges_total", "Attempts beside a slow first one: sent, won.", "event")
	t.resumed = counter("continuations_total", "Broken streams taken on by another worker, by how that ended.", "outcome")
	if reg != nil {
		reg.MustRegister(t.requests, t.duration, t.ttft, t.inflight, t.queued, t.routes, t.attempts, t.tokens,
			t.skipped, t.fleetAge, t.hedges, t.resumed)
	}
	return t
}

// Begin counts a request that has started.
func (t *Telemetry) Begin() { t.inflight.Inc() }

// Done ends a record: one log line, one count.
func (t *Telemetry) Done(r *Record) {
	now := t.clock()
	t.inflight.Dec()
	op := t.operation(r.Operation)
	op.done(t, r.Status).Inc()
	op.duration.Observe(now.Sub(r.Start).Seconds())
	if r.TTFT > 0 {
		op.ttft.Observe(r.TTFT.Seconds())
	}
	for i, n := range [...]int64{r.PromptTokens, r.PredictedTokens, r.CachedTokens, r.OutputTokens} {
		if n > 0 {
			t.kinds[i].Add(float64(n))
		}
	}
	r.log(t.log, now)
}

// tokenKinds are the labels of tokens_total.
func tokenKinds() [4]string { return [...]string{"prompt", "predicted_hit", "cached", "output"} }

// boundOperation is one operation's metrics, found once: a look-up by labels for each of a request's figures costs as much
// as counting it.
type boundOperation struct {
	name           string
	duration, ttft prometheus.Observer
	byStatus       [600]atomic.Pointer[boundCounter]
}

// boundCounter is a named struct because atomic.Pointer cannot hold an interface.
type boundCounter struct{ prometheus.Counter }

func (t *Telemetry) operation(name string) *boundOperation {
	if op, ok := t.ops.Load(name); ok {
		return op.(*boundOperation)
	}
	op, _ := t.ops.LoadOrStore(name, &boundOperation{
		name: name, duration: t.duration.WithLabelValues(name), ttft: t.ttft.WithLabelValues(name),
	})
	return op.(*boundOperation)
}

// done is the counter of a status. Two first requests may both bind it; the vector gives them the same one.
func (op *boundOperation) done(t *Telemetry, status int) prometheus.Counter {
	if status < 0 || status >= len(op.byStatus) {
		return t.requests.WithLabelValues(op.name, strconv.Itoa(status))
	}
	c := op.byStatus[status].Load()
	if c == nil {
		c = &boundCounter{t.requests.WithLabelValues(op.name, strconv.Itoa(status))}
		op.byStatus[status].Store(c)
	}
	return c
}

// Queued moves the number of waiting requests.
func (t *Telemetry) Queued(delta int) { t.queued.Add(float64(delta)) }

// Routed counts a route. Both words come from fixed sets.
func (t *Telemetry) Routed(certainty, reason string) {
	t.routes.WithLabelValues(certainty, reason).Inc()
}

// Attempted counts a call to a worker.
func (t *Telemetry) Attempted(outcome string) { t.attempts.WithLabelValues(outcome).Inc() }

// Skipped counts a prompt whose rendering or tokenising was given up.
func (t *Telemetry) Skipped(stage string) { t.skipped.WithLabelValues(stage).Inc() }

// FleetAge reports how old the list of models is.
func (t *Telemetry) FleetAge(d time.Duration) { t.fleetAge.Set(d.Seconds()) }

// Hedged counts a hedge that was sent, or one that was faster.
func (t *Telemetry) Hedged(event string) { t.hedges.WithLabelValues(event).Inc() }

// Continued counts a broken stream that another worker took on: ok, refused or broken.
func (t *Telemetry) Continued(outcome string) { t.resumed.WithLabelValues(outcome).Inc() }
