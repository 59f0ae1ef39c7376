package flight

import (
	"log/slog"
	"strconv"
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
	skipped  *prometheus.CounterVec
	fleetAge prometheus.Gauge
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
	t.skipped = counter("prompt_skips_total", "Prompts that were not rendered or tokenised in time, by stage.", "stage")
	t.fleetAge = gauge("fleet_view_age_seconds", "Age of the list of models.")
	if reg != nil {
		reg.MustRegister(t.requests, t.duration, t.ttft, t.inflight, t.queued, t.routes, t.attempts, t.tokens,
			t.skipped, t.fleetAge)
	}
	return t
}

// Begin counts a request that has started.
func (t *Telemetry) Begin() { t.inflight.Inc() }

// Done ends a record: one log line, one count.
func (t *Telemetry) Done(r *Record) {
	now := t.clock()
	t.inflight.Dec()
	t.requests.WithLabelValues(r.Operation, strconv.Itoa(r.Status)).Inc()
	t.duration.WithLabelValues(r.Operation).Observe(now.Sub(r.Start).Seconds())
	if r.TTFT > 0 {
		t.ttft.WithLabelValues(r.Operation).Observe(r.TTFT.Seconds())
	}
	t.add("prompt", r.PromptTokens)
	t.add("predicted_hit", r.PredictedTokens)
	t.add("cached", r.CachedTokens)
	t.add("output", r.OutputTokens)
	r.log(t.log, now)
}

func (t *Telemetry) add(kind string, n int64) {
	if n > 0 {
		t.tokens.WithLabelValues(kind).Add(float64(n))
	}
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
