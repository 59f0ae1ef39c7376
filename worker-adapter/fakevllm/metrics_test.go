package fakevllm_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/capture"
)

// series maps each metric name of a text exposition to its sorted label names.
func series(text string) map[string]string {
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\S+?)\{(.*)\} \S+$`).FindAllStringSubmatch(text, -1) {
		var labels []string
		for _, l := range regexp.MustCompile(`([a-zA-Z_]+)="`).FindAllStringSubmatch(m[2], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		out[m[1]] = strings.Join(labels, ",")
	}
	return out
}

// capturedSeries are the captured metrics that a load watcher, a router or a dashboard reads. Left out are: what a
// Python process says of itself and of its HTTP library, estimates of the GPU's work, creation times, the tool
// parser's and sleep mode's own counts, request parameters, and the configuration gauge, which has a label for each of
// vLLM's fifty cache options.
func capturedSeries(t *testing.T) map[string]string {
	t.Helper()
	var text string
	for _, line := range capture.Read(t, "http.jsonl") {
		if line.Name == "GET /metrics" {
			text = line.HTTP.Answer
		}
	}
	out := series(text)
	for name := range out {
		for _, other := range []string{
			"python_", "process_", "http_", "estimated_", "_created", "tool_call_parser", "sleep_mode", "request_params",
			"request_max_num_generation", "cache_config_info",
		} {
			if strings.Contains(name, other) {
				delete(out, name)
			}
		}
	}
	return out
}
