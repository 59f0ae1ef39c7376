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

// TestSilence: hits and short requests publish nothing by right; computing more than all requests could without
// filling a block, and publishing nothing, is silence.
func TestSilence(t *testing.T) {
	t.Parallel()
	at := time.Unix(100, 0)
	rows := []struct {
		name  string
		after vllm.RankMetrics
		wait  time.Duration
		want  bool
	}{
		{"idle", vllm.RankMetrics{}, time.Minute, false},
		{"50 prompts of 400 tokens", vllm.RankMetrics{PromptTokens: 20_000, Finished: 50}, time.Minute, true},
		{"just now", vllm.RankMetrics{PromptTokens: 20_000, Finished: 50}, time.Second, false},
		{"all of it cached", vllm.RankMetrics{PromptTokens: 20_000, CachedTokens: 19_600, Finished: 50}, time.Minute, false},
		{"short prompts", vllm.RankMetrics{PromptTokens: 700, Finished: 50}, time.Minute, false},
		{"one long answer", vllm.RankMetrics{OutputTokens: 500, Running: 1}, time.Minute, true},
	}
	for _, row := range rows {
		var s silence
		s.look(time.Time{}, vllm.RankMetrics{}, at)
		s.look(time.Time{}, row.after, at.Add(row.wait))
		require.Equal(t, row.want, s.silent(16), row.name)
		require.False(t, s.silent(0), "nothing is known without a block size")
		s.look(at.Add(row.wait), row.after, at.Add(row.wait))
		require.False(t, s.silent(16), "an event ends the silence")
	}
}
