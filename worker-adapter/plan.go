package workeradapter

import (
	"fmt"
	"strings"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/feed"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq"
)

// plan is which publishers to follow, or why none can be. Two equal plans need no new streams.
type plan struct {
	model string
	// generation is that of the view: a new process is followed anew.
	generation uint64
	ranks      int
	// why says what to change when there is nothing to follow.
	why string
	// hint is worth telling although events work.
	hint string
}

// planOf decides which publishers to follow.
func (s *Service) planOf(v *vllm.View) (plan, []feed.Config) {
	base, ok := vllm.Base(v.Models)
	if !ok {
		return plan{}, nil
	}
	p := plan{model: base.ID, generation: v.Generation}
	if s.cfg.Events.Mode == EventsOff {
		p.why = "the adapter's events.mode is off"
		return p, nil
	}
	if !v.Metrics.PrefixCaching {
		p.why = "prefix caching is off: start vLLM with --enable-prefix-caching"
		return p, nil
	}
	var out []feed.Config
	if s.cfg.Events.Mode == EventsAuto && v.Sources != nil {
		out, p.why = s.told(v.Sources)
	} else {
		out, p.why = s.configured(v)
	}
	p.ranks = len(out)
	if len(out) > 0 && out[0].Replay == "" {
		p.hint = `no replay endpoint: lost events cost the whole index; add "replay_endpoint":"tcp://*:5558"`
	}
	return p, out
}

// told follows what the worker says of itself.
func (s *Service) told(sources []vllm.Source) ([]feed.Config, string) {
	host := s.client.Host()
	var out []feed.Config
	for _, src := range sources {
		switch {
		case !src.Enabled || src.Publisher == "null" || src.Endpoint == "":
			return nil, "KV events are off: start vLLM with " + vllm.EnableEvents
		case !zmq.Binds(src.Endpoint):
			return nil, fmt.Sprintf("the worker's publisher connects to %s instead of binding it, so nobody hears it: "+
				"start vLLM with \"endpoint\":\"tcp://*:5557\"", src.Endpoint)
		}
		live := zmq.Reach(src.Endpoint, host)
		if err := zmq.Check(live); err != nil {
			return nil, fmt.Sprintf("the worker publishes at %s, which another process cannot reach: "+
				"start vLLM with \"endpoint\":\"tcp://*:5557\"", src.Endpoint)
		}
		fc := feed.Config{Live: zmq.Subscription{Endpoint: live, Topic: src.Topic}}
		if src.Replay != "" {
			fc.Replay = zmq.Reach(src.Replay, host)
		}
		out = append(out, fc)
	}
	return out, ""
}

// configured follows the configured endpoint, one port per rank.
func (s *Service) configured(v *vllm.View) ([]feed.Config, string) {
	e := s.cfg.Events
	if e.Endpoint == "" {
		return nil, "the worker does not tell where it publishes (GET /kv_event_sources): set the adapter's " +
			"events.endpoint, and start vLLM with " + vllm.EnableEvents
	}
	for _, src := range v.Sources {
		if !strings.HasPrefix(src.Topic, e.Topic) {
			return nil, fmt.Sprintf("the worker's topic %q does not begin with the adapter's events.topic %q, so nothing is heard: "+
				"set events.topic to the worker's, or leave it out", src.Topic, e.Topic)
		}
	}
	var out []feed.Config
	for rank := range max(1, e.Ranks, len(v.Metrics.Ranks)) {
		live, err := zmq.ForRank(e.Endpoint, rank)
		if err != nil {
			return nil, err.Error()
		}
		if e.Mode != EventsBind {
			live = zmq.Reach(live, s.client.Host())
		}
		fc := feed.Config{Live: zmq.Subscription{Endpoint: live, Topic: e.Topic, Bind: e.Mode == EventsBind}}
		if e.ReplayEndpoint != "" {
			replay, err := zmq.ForRank(e.ReplayEndpoint, rank)
			if err != nil {
				return nil, err.Error()
			}
			fc.Replay = zmq.Reach(replay, s.client.Host())
		}
		out = append(out, fc)
	}
	return out, ""
}
