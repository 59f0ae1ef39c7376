package vllm

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics is the part of /metrics that the mesh uses.
type Metrics struct {
	// Ranks is indexed by engine. Empty until the engines have reported.
	Ranks []RankMetrics
	// BlockTokens and GPUBlocks come from cache_config_info; the null block is taken off. 0 while unknown.
	BlockTokens uint32
	GPUBlocks   uint64
	// PrefixCaching is false when the server says that it is off.
	PrefixCaching bool
	// Asleep is true when an engine is in any sleep state but awake.
	Asleep bool
	// StartSeconds is the process's start, which changes when the server restarts; 0 with several API servers.
	StartSeconds float64
}

// rest takes the load of an engine that sleeps as nothing: it computes no step, so its gauges stay at what they were.
func (m *Metrics) rest() {
	for i := range m.Ranks {
		m.Ranks[i].Running, m.Ranks[i].Waiting = 0, 0
	}
}

// unload forgets all numbers of a worker that is gone and keeps what describes it.
func (m *Metrics) unload() {
	m.Ranks = make([]RankMetrics, len(m.Ranks))
	m.Asleep, m.StartSeconds = false, 0
}

// RankMetrics is one engine's.
type RankMetrics struct {
	Running, Waiting uint32
	KVUse            float64
	// PromptTokens, CachedTokens, OutputTokens and Finished are counters since the server's start.
	PromptTokens, CachedTokens, OutputTokens, Finished float64
}

// wanted are the families that are read; the rest of the page, mostly histograms, is not parsed.
func wanted(name string) bool {
	switch name {
	case "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
		"vllm:gpu_cache_usage_perc", "vllm:cache_config_info", "vllm:engine_sleep_state",
		"vllm:prompt_tokens_total", "vllm:prefix_cache_hits_total", "vllm:generation_tokens_total",
		"vllm:request_success_total", "process_start_time_seconds":
		return true
	}
	return false
}

// Metrics reads /metrics.
func (c *Client) Metrics(ctx context.Context) (Metrics, error) {
	page, err := c.Get(ctx, "/metrics")
	if err != nil {
		return Metrics{}, err
	}
	return ParseMetrics(page)
}

// ParseMetrics reads a metrics page.
func ParseMetrics(page []byte) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(reduce(page)))
	if err != nil {
		return Metrics{}, fmt.Errorf("read /metrics: %w", err)
	}
	m := Metrics{PrefixCaching: true}
	for name, f := range families {
		for _, s := range f.Metric {
			m.take(name, s)
		}
	}
	return m, nil
}

// reduce keeps the samples of the wanted families and drops comments and all other lines.
func reduce(page []byte) []byte {
	out := make([]byte, 0, 4096)
	for line := range bytes.Lines(page) {
		end := bytes.IndexAny(line, "{ ")
		if end > 0 && line[0] != '#' && wanted(string(line[:end])) {
			out = append(out, line...)
		}
	}
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return out
}

// take reads one sample. Without a TYPE line the parser calls every sample untyped.
func (m *Metrics) take(name string, s *dto.Metric) {
	labels := map[string]string{}
	for _, l := range s.Label {
		labels[l.GetName()] = l.GetValue()
	}
	v := s.GetUntyped().GetValue()
	switch name {
	case "process_start_time_seconds":
		m.StartSeconds = v
		return
	case "vllm:cache_config_info":
		m.config(labels)
		return
	case "vllm:engine_sleep_state":
		m.Asleep = m.Asleep || v > 0 && labels["sleep_state"] != "awake"
		return
	}
	if r := m.rank(labels["engine"]); r != nil {
		r.take(name, v)
	}
}

// rank is the engine's entry; servers without the label have one engine.
func (m *Metrics) rank(engine string) *RankMetrics {
	n, err := strconv.Atoi(engine)
	if err != nil {
		n = 0
	}
	if n < 0 || n >= maxRanks {
		return nil
	}
	for len(m.Ranks) <= n {
		m.Ranks = append(m.Ranks, RankMetrics{})
	}
	return &m.Ranks[n]
}

// take adds one sample: request_success has one per reason.
func (r *RankMetrics) take(name string, v float64) {
	switch name {
	case "vllm:num_requests_running":
		r.Running = whole(v)
	case "vllm:num_requests_waiting":
		r.Waiting = whole(v)
	case "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc":
		r.KVUse = min(max(v, 0), 1)
	case "vllm:prompt_tokens_total":
		r.PromptTokens += v
	case "vllm:prefix_cache_hits_total":
		r.CachedTokens += v
	case "vllm:generation_tokens_total":
		r.OutputTokens += v
	case "vllm:request_success_total":
		r.Finished += v
	}
}

// whole is a gauge as a count; NaN and negative values are 0.
func whole(v float64) uint32 {
	if !(v > 0) {
		return 0
	}
	return uint32(min(v, 1<<31))
}

// config reads cache_config_info. vLLM's own pool keeps one block, the null block, that never holds content.
func (m *Metrics) config(labels map[string]string) {
	if n, err := strconv.ParseUint(labels["block_size"], 10, 32); err == nil {
		m.BlockTokens = uint32(n)
	}
	if n, err := strconv.ParseUint(labels["num_gpu_blocks"], 10, 64); err == nil && n > 0 {
		m.GPUBlocks = n - 1
	}
	if v, ok := labels["enable_prefix_caching"]; ok {
		m.PrefixCaching = v == "True" || v == "true"
	}
}
