package tokenizersvc

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hf"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/registry"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/segment"
)

// metrics are the service's own; it is also the collector of what models and caches count themselves.
type metrics struct {
	service *Service
	cache   *segment.Cache

	seconds *prometheus.HistogramVec
	bytes   *prometheus.CounterVec
	tokens  *prometheus.CounterVec
	audits  *prometheus.CounterVec
	loads   *prometheus.CounterVec
	load    *prometheus.GaugeVec

	ready, fast, segmentBytes, evictions, cacheBytes, threads *prometheus.Desc
}

// newMetrics makes the metrics of one service; nothing is registered yet.
func newMetrics(s *Service, cache *segment.Cache) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kvmesh_tokenizer_" + name, Help: help}, labels)
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("kvmesh_tokenizer_"+name, help, labels, nil)
	}
	return &metrics{
		service: s, cache: cache,
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kvmesh_tokenizer_encode_seconds", Help: "Time of one encode, without waiting for a slot.",
			// 10 µs (a short prompt, fast) to 10 s (the largest text, reference).
			Buckets: prometheus.ExponentialBuckets(10e-6, 4, 11),
		}, []string{"model", "engine"}),
		bytes:  counter("encode_bytes_total", "Bytes of text encoded.", "model"),
		tokens: counter("encode_tokens_total", "Tokens that encodes gave.", "model"),
		audits: counter("audits_total", "Sampled requests compared with the reference, by outcome.", "model", "outcome"),
		loads:  counter("loads_total", "Attempts to load a model, by outcome.", "model", "outcome"),
		load: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kvmesh_tokenizer_load_seconds", Help: "Time of the last load.",
		}, []string{"model"}),
		ready: desc("model_ready", "1 when the model answers.", "model"),
		fast:  desc("fast_engine", "1 when the fast engine encodes for the model.", "model"),
		segmentBytes: desc("segment_bytes_total", "Bytes of text looked up in the segment cache, by outcome.", "model",
			"outcome"),
		evictions:  desc("segment_evictions_total", "Segments dropped for room."),
		cacheBytes: desc("segment_cache_bytes", "Size of the segment cache."),
		threads:    desc("fast_threads", "OS threads that hold state of the fast engine."),
	}
}

// register reports every metric that the registerer refuses.
func (m *metrics) register(r prometheus.Registerer) error {
	return errors.Join(r.Register(m.seconds), r.Register(m.bytes), r.Register(m.tokens), r.Register(m.audits),
		r.Register(m.loads), r.Register(m.load), r.Register(m))
}

// encoded counts one encode. Sizes and times only: no metric may tell a prompt.
func (m *metrics) encoded(tokenizer *model.Model, bytes, tokens int, took time.Duration) {
	engine := hf.Reference
	if fast, _ := tokenizer.Fast(); fast {
		engine = hf.Fast
	}
	m.seconds.WithLabelValues(tokenizer.Name(), engine.String()).Observe(took.Seconds())
	m.bytes.WithLabelValues(tokenizer.Name()).Add(float64(bytes))
	m.tokens.WithLabelValues(tokenizer.Name()).Add(float64(tokens))
}

// loaded is the registry's hook.
func (m *metrics) loaded(name string, took time.Duration, err error) {
	outcome := "ready"
	switch {
	case errors.Is(err, definition.ErrUnsupported):
		outcome = "unsupported"
	case err != nil:
		outcome = "failed"
	}
	m.loads.WithLabelValues(name, outcome).Inc()
	m.load.WithLabelValues(name).Set(took.Seconds())
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.ready, m.fast, m.segmentBytes, m.evictions, m.cacheBytes, m.threads} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, status := range m.service.registry.List() {
		m.collectModel(ch, status)
	}
	gauge(ch, m.threads, float64(hf.AdmittedThreads()))
	if m.cache != nil {
		counter(ch, m.evictions, float64(m.cache.Evictions()))
		gauge(ch, m.cacheBytes, float64(m.cache.Bytes()))
	}
}

// collectModel reads a model's own counters. They start again when the model is loaded again, as Prometheus expects of
// counters.
func (m *metrics) collectModel(ch chan<- prometheus.Metric, status registry.Status) {
	name := status.Spec.Name
	tokenizer, err := m.service.registry.Acquire(name)
	if err != nil {
		gauge(ch, m.ready, 0, name)
		return
	}
	defer tokenizer.Release()
	gauge(ch, m.ready, 1, name)
	used := 0.0
	if fast, _ := tokenizer.Fast(); fast {
		used = 1
	}
	gauge(ch, m.fast, used, name)
	counter(ch, m.segmentBytes, float64(tokenizer.Stats().HitBytes.Load()), name, "hit")
	counter(ch, m.segmentBytes, float64(tokenizer.Stats().MissBytes.Load()), name, "miss")
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}
