package exposition

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/engine"
)

// collector turns the engines' snapshots into metrics at each scrape. It is unchecked: it describes nothing.
type collector struct{ m *Metrics }

// Describe sends nothing, which makes the collector unchecked: its series depend on the number of ranks and adapters.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// sample is one value; extra are label names and values in turn.
type sample struct {
	name, help string
	counter    bool
	value      float64
	extra      []string
}

// Collect takes one snapshot per rank. It holds an engine's lock for a moment only.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for rank := range c.m.static.Ranks {
		st := c.m.stats(rank)
		base := prometheus.Labels{"engine": strconv.Itoa(rank), "model_name": c.m.static.Model}
		for _, s := range samples(&st) {
			emit(out, base, s)
		}
		c.config(out, rank)
	}
	c.adapters(out)
}

// samples are the gauges and counters of one rank under vLLM's names. Sources and tiers that the simulation does not
// have are there with the value 0, as on a real worker without them.
func samples(st *engine.Stats) []sample {
	gauge := func(name, help string, v float64, extra ...string) sample {
		return sample{name: name, help: help, value: v, extra: extra}
	}
	count := func(name, help string, v uint64, extra ...string) sample {
		return sample{name: name + "_total", help: help, counter: true, value: float64(v), extra: extra}
	}
	const (
		waitHelp  = "Number of waiting requests by reason."
		sleepHelp = "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; " +
			"weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2."
		sourceHelp = "Number of prompt tokens by source."
		tierHelp   = "Prefix-cache hit tokens by the cache tier that supplied them."
	)
	out := []sample{
		gauge("num_requests_running", "Number of requests in model execution batches.", float64(st.Running)),
		gauge("num_requests_waiting", "Number of requests waiting to be processed.", float64(st.Waiting)),
		gauge("num_requests_waiting_by_reason", waitHelp, float64(st.Waiting), "reason", "capacity"),
		gauge("num_requests_waiting_by_reason", waitHelp, 0, "reason", "deferred"),
		gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", st.Usage),
		count("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.", st.Queries),
		count("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", st.Hits),
		count("external_prefix_cache_queries", "External prefix cache queries from KV connector cross-instance cache "+
			"sharing, in terms of number of queried tokens.", 0),
		count("external_prefix_cache_hits", "External prefix cache hits from KV connector cross-instance cache sharing, "+
			"in terms of number of cached tokens.", 0),
		count("mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items.", 0),
		count("mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items.", 0),
		count("num_preemptions", "Cumulative number of preemption from the engine.", st.Preemptions),
		count("prompt_tokens", "Number of prefill tokens processed.", st.PromptTokens),
		count("prompt_tokens_by_source", sourceHelp, st.PromptTokens-st.Hits, "source", "local_compute"),
		count("prompt_tokens_by_source", sourceHelp, st.Hits, "source", "local_cache_hit"),
		count("prompt_tokens_by_source", sourceHelp, 0, "source", "external_kv_transfer"),
		count("prompt_tokens_cached", "Number of cached prompt tokens (local + external).", st.Hits),
		count("prompt_tokens_cached_by_source", tierHelp, st.Hits, "source", "device"),
		count("generation_tokens", "Number of generation tokens processed.", st.GenerationTokens),
	}
	for _, tier := range [...]string{"host", "p2p", "disk", "external_unspecified"} {
		out = append(out, count("prompt_tokens_cached_by_source", tierHelp, 0, "source", tier))
	}
	for level, name := range [...]string{"awake", "weights_offloaded", "discard_all"} {
		on := 0.0
		if st.SleepLevel == level {
			on = 1
		}
		out = append(out, gauge("engine_sleep_state", sleepHelp, on, "sleep_state", name))
	}
	return out
}

// emit sends one sample with the rank's labels and its own.
func emit(out chan<- prometheus.Metric, base prometheus.Labels, s sample) {
	labels := maps.Clone(base)
	for i := 0; i < len(s.extra); i += 2 {
		labels[s.extra[i]] = s.extra[i+1]
	}
	kind := prometheus.GaugeValue
	if s.counter {
		kind = prometheus.CounterValue
	}
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc("vllm:"+s.name, s.help, nil, labels), kind, s.value)
}

// config is the discovery gauge: all of the cache configuration in labels, value 1.
func (c *collector) config(out chan<- prometheus.Metric, rank int) {
	st := &c.m.static
	labels := prometheus.Labels{
		"engine": strconv.Itoa(rank), "block_size": strconv.Itoa(st.BlockSize), "cache_dtype": "auto",
		"effective_attention_block_size": strconv.Itoa(st.BlockSize), "enable_prefix_caching": "True",
		"gpu_memory_utilization": "0.92", "is_attention_free": "False",
		"kv_cache_size_tokens": strconv.Itoa(st.BlockSize * st.NumGPUBlocks),
		"num_gpu_blocks":       strconv.Itoa(st.NumGPUBlocks), "num_cpu_blocks": "None",
		"num_gpu_blocks_override": strconv.Itoa(st.NumGPUBlocks), "prefix_caching_hash_algo": "sha256",
		"sliding_window": "None", "_block_size_resolved": "True",
	}
	desc := prometheus.NewDesc("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", nil, labels)
	out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1)
}

// adapters lists running and waiting LoRA adapters in labels; the value is the time in seconds since the epoch.
func (c *collector) adapters(out chan<- prometheus.Metric) {
	if c.m.static.MaxLoRAs == 0 {
		return
	}
	var running, waiting []string
	for rank := range c.m.static.Ranks {
		st := c.m.stats(rank)
		running, waiting = append(running, st.RunningLoRAs...), append(waiting, st.WaitingLoRAs...)
	}
	slices.Sort(running)
	slices.Sort(waiting)
	desc := prometheus.NewDesc("vllm:lora_requests_info", "Running stats on lora requests.", nil, prometheus.Labels{
		"max_lora": strconv.Itoa(c.m.static.MaxLoRAs), "running_lora_adapters": join(slices.Compact(running)),
		"waiting_lora_adapters": join(slices.Compact(waiting)),
	})
	out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(time.Now().UnixNano())/1e9)
}
