package schedulersvc

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/feed"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/receipt"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/route"
)

// meter holds the service's metrics. Labels are closed sets and names of workers in the fleet, never a client's text.
type meter struct {
	s *Service

	decisions       *prometheus.CounterVec
	seconds         prometheus.Histogram
	queued          prometheus.Histogram
	settles         *prometheus.CounterVec
	predicted       *prometheus.CounterVec
	phantom         *prometheus.CounterVec
	missed          *prometheus.CounterVec
	audited         prometheus.Counter
	abandoned       prometheus.Counter
	unconfirmed     prometheus.Counter
	peerGaps        prometheus.Counter
	publishFailures prometheus.Counter
}

func newMeter(s *Service) *meter {
	return &meter{
		s: s,
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvmesh_scheduler_decisions_total", Help: "Routes by result and by certainty of the chosen target.",
		}, []string{"result", "certainty"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kvmesh_scheduler_decision_seconds", Help: "Time of one decision, without the queue.",
			Buckets: []float64{5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2},
		}),
		queued: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kvmesh_scheduler_queue_seconds", Help: "Time that placed requests spent in the scheduler's queue.",
			Buckets: []float64{1e-3, 1e-2, 0.1, 0.5, 1, 2, 5, 10, 30},
		}),
		settles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvmesh_scheduler_settles_total", Help: "Reservations ended, by outcome.",
		}, []string{"outcome"}),
		predicted:   byCertainty("predicted_hit_tokens_total", "Hit tokens predicted for requests whose worker reported its own."),
		phantom:     byCertainty("phantom_hit_tokens_total", "Hit tokens predicted that the worker did not report."),
		missed:      byCertainty("missed_hit_tokens_total", "Hit tokens reported by workers that were not predicted."),
		audited:     counter("audited_requests_total", "Requests whose prediction was compared with the worker's report."),
		abandoned:   counter("abandoned_reservations_total", "Reservations that were never settled."),
		unconfirmed: counter("unconfirmed_expectations_total", "Requests whose expected units were neither confirmed nor released."),
		peerGaps:    counter("peer_gaps_total", "Messages of other schedulers that did not join the one before."),

		publishFailures: counter("publish_failures_total", "Messages to other schedulers that could not be sent."),
	}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "kvmesh_scheduler_" + name, Help: help})
}

func byCertainty(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kvmesh_scheduler_" + name, Help: help}, []string{"certainty"})
}

func (m *meter) register(r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{
		m.decisions, m.seconds, m.queued, m.settles, m.predicted, m.phantom, m.missed, m.audited, m.abandoned,
		m.unconfirmed, m.peerGaps, m.publishFailures, newGauges(m.s),
	} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// Decided implements route.Observer.
func (m *meter) Decided(d route.Decision) {
	certainty := ""
	if d.Result == route.Placed {
		certainty = d.Certainty.String()
		m.queued.Observe(d.Queued.Seconds())
	}
	m.decisions.WithLabelValues(d.Result.String(), certainty).Inc()
	if d.Took > 0 {
		m.seconds.Observe(d.Took.Seconds())
	}
}

// Settled implements route.Observer.
func (m *meter) Settled(b *route.Booked, e route.Ending) {
	m.settles.WithLabelValues(outcomeLabel(e.Outcome)).Inc()
	m.s.sink.Write(b.Record())
	if served(e) {
		m.s.requests.Write(logged(b, e))
	}
	if !e.HasActual {
		return
	}
	m.audited.Inc()
	certainty := b.Certainty.String()
	m.predicted.WithLabelValues(certainty).Add(float64(b.Predicted))
	m.phantom.WithLabelValues(certainty).Add(float64(max(0, b.Predicted-e.Actual)))
	m.missed.WithLabelValues(certainty).Add(float64(max(0, e.Actual-b.Predicted)))
}

// served tells whether a request belongs into the request log: answered, or left by its client while it was. Attempts that
// failed and hedges that lost are not the client's doing.
func served(e route.Ending) bool {
	return e.Outcome == schedulerv1.Outcome_OUTCOME_OK || e.Outcome == schedulerv1.Outcome_OUTCOME_CANCELLED && e.Output > 0
}

func logged(b *route.Booked, e route.Ending) receipt.Request {
	r := receipt.Request{
		Time: b.Arrived, Model: b.Model, InputTokens: b.Prompt, OutputTokens: e.Output, UnitTokens: b.UnitSize,
		CachedTokens: -1, TTFT: time.Duration(e.TTFTUS) * time.Microsecond, Units: b.Units,
	}
	if e.HasActual {
		r.CachedTokens = e.Actual
	}
	return r
}

// gauges reads the service's state when it is scraped.
type gauges struct {
	s     *Service
	descs map[string]*prometheus.Desc
}

func newGauges(s *Service) *gauges {
	g := &gauges{s: s, descs: map[string]*prometheus.Desc{}}
	for _, row := range gaugeTable() {
		g.descs[row.name] = prometheus.NewDesc("kvmesh_scheduler_"+row.name, row.help, row.labels, nil)
	}
	return g
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range g.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	put := func(name string, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if len(name) > 6 && name[len(name)-6:] == "_total" {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(g.descs[name], kind, value, labels...)
	}
	g.index(put)
	g.feed(put)
	g.load(put)
}

type putter func(name string, value float64, labels ...string)

func (g *gauges) index(put putter) {
	st := g.s.index.Stats()
	put("index_units", float64(st.Units))
	put("index_bytes", float64(st.Bytes))
	put("index_evictions_total", float64(st.Evicted))
	put("index_refused_total", float64(st.Refused))
}

func (g *gauges) feed(put putter) {
	c := &g.s.counts
	put("feed_deltas_total", float64(c.Deltas.Load()))
	put("feed_units_total", float64(c.Units.Load()))
	put("feed_heartbeats_total", float64(c.Heartbeats.Load()))
	put("feed_duplicates_total", float64(c.Duplicates.Load()))
	put("feed_strangers_total", float64(c.Strangers.Load()))
	put("feed_buffer_overflows_total", float64(c.Overflows.Load()))
	put("feed_audits_total", float64(c.Audits.Load()))
	put("feed_audit_mismatches_total", float64(c.Mismatches.Load()))
	put("feed_snapshots_total", float64(c.Snapshots.Load()))
	put("feed_snapshot_failures_total", float64(c.Failures.Load()))
	for i, cause := range feed.Causes() {
		put("feed_mends_total", float64(c.Mends[i].Load()), cause)
	}
}

func (g *gauges) load(put putter) {
	put("queue_waiting", float64(g.s.queue.Waiting()))
	put("reservations", float64(g.s.ledger.Open()))
	peers, theirs := g.s.ledger.Peers()
	put("peers", float64(peers))
	put("peer_reservations", float64(theirs))
	records, bytes := g.s.receipts.Size()
	put("receipts", float64(records))
	put("receipt_bytes", float64(bytes))
	put("receipt_sink_dropped_total", float64(g.s.sink.Dropped()))
	put("request_log_dropped_total", float64(g.s.requests.Dropped()))
	now := g.s.deps.Now()
	for _, t := range g.s.fleet.View().Targets {
		worker, rank := t.Key.Worker, strconv.FormatUint(uint64(t.Key.Rank), 10)
		requests, queued := t.Inflight(now)
		certainty, _ := t.Certainty(now)
		coefficients, quality := t.Quality()
		put("target_inflight", float64(requests), worker, rank)
		put("target_queued_tokens", float64(queued), worker, rank)
		put("target_expected", float64(t.Expect.Len()), worker, rank)
		put("target_certainty", float64(certainty), worker, rank)
		put("target_breaker", float64(t.Breaker.State(now)), worker, rank)
		put("target_drift", t.Drift.Share(), worker, rank)
		put("target_prefill_seconds_per_token", coefficients.PrefillS, worker, rank)
		put("target_prefill_error", quality.PrefillMAPE, worker, rank)
		if t.Stream == nil {
			continue
		}
		put("target_units", float64(t.Stream.Units()), worker, rank)
		if heard, ok := t.Stream.Heard(); ok {
			put("target_event_age_seconds", max(0, now.Sub(heard).Seconds()), worker, rank)
		}
	}
}
