// Package exposition serves the metrics of a simulated worker under the names and labels of vLLM 0.32, as far as load
// watchers, routers and dashboards read them.
package exposition

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/engine"
)

// Static are the values of the labels that do not change.
type Static struct {
	Model        string
	Ranks        int
	BlockSize    int
	NumGPUBlocks int
	MaxLoRAs     int // 0 leaves lora_requests_info out
}

// Metrics is one server's registry. Its methods may be called by any goroutine.
type Metrics struct {
	static  Static
	stats   func(rank int) engine.Stats
	handler http.Handler
	http    *prometheus.CounterVec
	refused prometheus.Counter
	success *prometheus.CounterVec
	ranks   []rankMetrics
}

// rankMetrics are the histograms of one rank; each implements engine.Observer.
type rankMetrics struct {
	firstToken, interToken, perToken, total         prometheus.Observer
	queue, inference, prefill, decode               prometheus.Observer
	promptTokens, generated, iteration, preemptions prometheus.Observer
	computed                                        prometheus.Observer
	finished                                        map[string]prometheus.Counter
}

// New makes the registry; stats gives a rank's counters and gauges at the time of a scrape.
func New(static Static, stats func(rank int) engine.Stats) *Metrics {
	m := &Metrics{static: static, stats: stats}
	reg := prometheus.NewRegistry()
	m.http = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "http_requests_total", Help: "Total number of requests by method, status and handler.",
	}, []string{"handler", "method", "status"})
	m.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name:        "vllm:admission_rejections_total",
		Help:        "Number of admission attempts rejected by a queue limit, by reason.",
		ConstLabels: prometheus.Labels{"model_name": static.Model, "reason": "max_num_queued_reqs"},
	})
	m.success = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vllm:request_success_total", Help: "Count of successfully processed requests.",
	}, []string{"engine", "finished_reason", "model_name"})
	reg.MustRegister(m.http, m.refused, m.success, &collector{m: m})
	for rank := range static.Ranks {
		m.ranks = append(m.ranks, m.rank(reg, strconv.Itoa(rank)))
	}
	m.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	return m
}

// ServeHTTP writes the text format.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// HTTP counts an answered request under its status class.
func (m *Metrics) HTTP(handler, method string, status int) {
	m.http.WithLabelValues(handler, method, strconv.Itoa(status/100)+"xx").Inc()
}

// Rejected counts a request that the full queue refused.
func (m *Metrics) Rejected() { m.refused.Inc() }

// Observer returns the observer of one rank's engine.
func (m *Metrics) Observer(rank int) engine.Observer { return &m.ranks[rank] }

// rank registers the histograms of one rank. Bucket bounds are vLLM's, so that dashboards' quantiles work.
func (m *Metrics) rank(reg *prometheus.Registry, name string) rankMetrics {
	labels := prometheus.Labels{"engine": name, "model_name": m.static.Model}
	hist := func(name, help string, buckets []float64) prometheus.Observer {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vllm:" + name, Help: help, Buckets: buckets, ConstLabels: labels,
		})
		reg.MustRegister(h)
		return h
	}
	seconds := []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	first := []float64{
		.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
	inter := []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	tokens := []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000}
	r := rankMetrics{
		firstToken: hist("time_to_first_token_seconds", "Histogram of time to first token in seconds.", first),
		interToken: hist("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", inter),
		perToken: hist("request_time_per_output_token_seconds",
			"Histogram of time_per_output_token_seconds per request.", inter),
		total: hist("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", seconds),
		queue: hist("request_queue_time_seconds",
			"Histogram of time spent in WAITING phase for request.", seconds),
		inference: hist("request_inference_time_seconds",
			"Histogram of time spent in RUNNING phase for request.", seconds),
		prefill: hist("request_prefill_time_seconds",
			"Histogram of time spent in PREFILL phase for request.", seconds),
		decode: hist("request_decode_time_seconds",
			"Histogram of time spent in DECODE phase for request.", seconds),
		promptTokens: hist("request_prompt_tokens", "Number of prefill tokens processed.", tokens),
		generated:    hist("request_generation_tokens", "Number of generation tokens processed.", tokens),
		iteration:    hist("iteration_tokens_total", "Histogram of number of tokens per engine_step.", tokens),
		preemptions: hist("request_num_preemptions", "Histogram of the number of times a request was preempted.",
			[]float64{0, 1, 2, 5, 10}),
		computed: hist("request_prefill_kv_computed_tokens",
			"Histogram of new KV tokens computed during prefill (excluding cached tokens).", tokens),
		finished: map[string]prometheus.Counter{},
	}
	for _, reason := range [...]string{"stop", "length", "abort", "error", "repetition"} {
		r.finished[reason] = m.success.WithLabelValues(name, reason, m.static.Model)
	}
	return r
}

// Step implements engine.Observer.
func (r *rankMetrics) Step(s engine.StepInfo) {
	r.iteration.Observe(float64(s.Load.PrefillTokens + s.Load.Sequences))
	for range s.Load.Sequences {
		r.interToken.Observe(s.Took.Seconds())
	}
}

// Ended implements engine.Observer. An aborted request is not counted, as in vLLM 0.32.
func (r *rankMetrics) Ended(j engine.JobInfo) {
	if j.State != engine.Finished {
		return
	}
	reason := "stop"
	if j.Length {
		reason = "length"
	}
	r.finished[reason].Inc()
	s := time.Duration.Seconds
	r.firstToken.Observe(s(j.FirstToken))
	r.total.Observe(s(j.Total))
	r.queue.Observe(s(j.Queue))
	r.inference.Observe(s(j.Prefill + j.Decode))
	r.prefill.Observe(s(j.Prefill))
	r.decode.Observe(s(j.Decode))
	if j.Generated > 1 {
		r.perToken.Observe(s(j.Decode) / float64(j.Generated-1))
	}
	r.promptTokens.Observe(float64(j.Prompt))
	r.generated.Observe(float64(j.Generated))
	r.preemptions.Observe(float64(j.Preempted))
	r.computed.Observe(float64(j.Prompt - j.Cached))
}

// join writes names as the comma-separated label that vLLM uses.
func join(names []string) string { return strings.Join(names, ",") }
