package workeradapter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

// TestPlan: which publishers are followed, or what is said instead.
func TestPlan(t *testing.T) {
	t.Parallel()
	told := func(live, replay string) []vllm.Source {
		return []vllm.Source{{Enabled: true, Publisher: "zmq", Endpoint: live, Replay: replay, Topic: "t"}}
	}
	rows := []struct {
		name    string
		events  Events
		sources []vllm.Source
		ranks   int
		noCache bool
		live    []string
		why     string
		hint    string
	}{
		{name: "told", sources: told("tcp://*:1", "tcp://*:2"), live: []string{"tcp://worker:1"}},
		{name: "told, no replay", sources: told("tcp://*:1", ""), live: []string{"tcp://worker:1"}, hint: "replay_endpoint"},
		{name: "told, off", sources: []vllm.Source{{Endpoint: "tcp://*:1"}}, why: "--kv-events-config"},
		{name: "told, null", sources: []vllm.Source{{Enabled: true, Publisher: "null", Endpoint: "x"}}, why: "off"},
		{name: "told, connects", sources: told("tcp://0.0.0.0:1", ""), why: "instead of binding"},
		{name: "told, in its own process", sources: told("inproc://x", ""), why: "cannot reach"},
		{name: "prefix caching off", noCache: true, sources: told("tcp://*:1", ""), why: "--enable-prefix-caching"},
		{name: "adapter's choice", events: Events{Mode: EventsOff}, sources: told("tcp://*:1", ""), why: "events.mode"},
		{name: "not told, not configured", why: "events.endpoint"},
		{
			name:    "configured over told",
			events:  Events{Mode: EventsConnect, Endpoint: "tcp://h:7", ReplayEndpoint: "tcp://h:9"},
			sources: told("tcp://*:1", ""), live: []string{"tcp://h:7"},
		},
		{
			name: "configured, ranks of the metrics", events: Events{Endpoint: "tcp://h:7", ReplayEndpoint: "tcp://h:9"},
			ranks: 3, live: []string{"tcp://h:7", "tcp://h:8", "tcp://h:9"},
		},
		{name: "ipc has one rank", events: Events{Endpoint: "ipc:///x"}, ranks: 2, why: "port per rank"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s, err := New(t.Context(), Config{URL: "http://worker:8000", Events: row.events}, Deps{Log: kittest.Logger(t)})
			require.NoError(t, err)
			v := vllm.View{Models: []vllm.Model{{ID: "m"}}, Sources: row.sources}
			v.Metrics.PrefixCaching = !row.noCache
			v.Metrics.Ranks = make([]vllm.RankMetrics, row.ranks)
			p, feeds := s.planOf(&v)
			require.Contains(t, p.why, row.why)
			require.Contains(t, p.hint, row.hint)
			require.Equal(t, row.why == "", p.why == "")
			var live []string
			for _, f := range feeds {
				live = append(live, f.Live.Endpoint)
			}
			require.Equal(t, row.live, live)
		})
	}
}

// look is a reading some time after the beginning, and when the last event had been heard.
type look struct {
	at, heard time.Duration
	vllm.RankMetrics
}

// repeat reads the same counters for three seconds.
func repeat(m vllm.RankMetrics) (out []look) {
	for at := time.Second; at <= 4*time.Second; at += time.Second {
		out = append(out, look{at: at, RankMetrics: m})
	}
	return out
}

// TestSilence: hits and short requests publish nothing by right; computing more than all requests could without
// filling a block, and publishing nothing, is silence once the proof has stood for a while.
func TestSilence(t *testing.T) {
	t.Parallel()
	const second = time.Second
	many := vllm.RankMetrics{PromptTokens: 20_000, Finished: 50}
	rows := []struct {
		name  string
		looks []look
		want  bool
	}{
		{"idle", repeat(vllm.RankMetrics{}), false},
		{"prompts", []look{{second, 0, many}, {2 * second, 0, many}, {3 * second, 0, many}}, true},
		{"found just now", []look{{58 * second, 0, vllm.RankMetrics{}}, {59 * second, 0, many}, {60 * second, 0, many}}, false},
		{"one reading alone", []look{{60 * second, 0, many}}, false},
		{"after a standstill", []look{{second, 0, many}, {60 * second, 0, many}, {61 * second, 0, many}}, false},
		{"long after a standstill", []look{
			{second, 0, many}, {60 * second, 0, many}, {61 * second, 0, many}, {62 * second, 0, many},
		}, true},
		{"an event came meanwhile", []look{{second, 0, many}, {2 * second, 2 * second, many}, {4 * second, 2 * second, many}}, false},
		{"all of it cached", repeat(vllm.RankMetrics{PromptTokens: 20_000, CachedTokens: 19_600, Finished: 50}), false},
		{"short prompts", repeat(vllm.RankMetrics{PromptTokens: 700, Finished: 50}), false},
		{"one long answer", repeat(vllm.RankMetrics{OutputTokens: 500, Running: 1}), true},
	}
	for _, row := range rows {
		var s, blind silence
		start := time.Unix(100, 0)
		s.look(start, reading{at: start, blockTokens: 16})
		for _, l := range row.looks {
			s.look(start.Add(l.heard), reading{l.RankMetrics, start.Add(l.at), 16})
			blind.look(start.Add(l.heard), reading{l.RankMetrics, start.Add(l.at), 0})
		}
		require.Equal(t, row.want, s.silent(), row.name)
		require.False(t, blind.silent(), "nothing is known without a block size")
		last := row.looks[len(row.looks)-1]
		s.look(start.Add(last.at), reading{last.RankMetrics, start.Add(last.at), 16})
		require.False(t, s.silent(), "an event ends the silence")
	}
}
