package workeradapter

import (
	"context"
	"fmt"
	"sync"
	"time"

	eventv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/bus"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/feed"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/stream"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq"
)

const (
	// heartbeatEvery is the longest pause between two heartbeats of a stream.
	heartbeatEvery = time.Second
	// confirmEvery is the pause between two of a stream that sends deltas: how long a lost last delta stays unseen.
	confirmEvery = heartbeatEvery / 5
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

// rankStream is one rank's stream and the goroutines that feed it.
type rankStream struct {
	*stream.Stream
	silence silence
	// current is called whenever the stream is found to be connected and complete.
	current func()
}

// Changed takes the feed's state. A stream that has become current is told at once: until the next card says so, nobody
// counts on its blocks.
func (s *rankStream) Changed(st feed.State) {
	s.Stream.Changed(st)
	if st.Connected && !st.Mending {
		s.current()
	}
}

// follower owns the streams of a worker. Its methods may be called from any goroutine.
type follower struct {
	svc *Service

	mu      sync.Mutex
	plan    plan
	streams []*rankStream
	roots   map[string]string
	stop    func()
}

// follow makes the streams that a view asks for and keeps them current. It belongs to the service's loop.
func (f *follower) follow(ctx context.Context, v *vllm.View) {
	p, sources := f.svc.planOf(v)
	if p.model != "" && p != f.plan {
		f.change(ctx, p, sources)
	}
	f.refresh(v)
}

// change replaces all streams.
func (f *follower) change(ctx context.Context, p plan, sources []feed.Config) {
	f.halt()
	for _, old := range f.all() {
		old.Void("the worker is followed anew")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan, f.streams = p, nil
	if p.why != "" {
		f.svc.log.Warn("no KV events", "why", p.why)
		return
	}
	f.start(ctx, sources)
}

// start makes one stream per source. The caller holds mu.
func (f *follower) start(ctx context.Context, sources []feed.Config) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for rank, src := range sources {
		rs := &rankStream{Stream: f.svc.newStream(f.plan.model, rank), current: f.svc.nudge}
		f.streams = append(f.streams, rs)
		fd := feed.New(src, rs, f.svc.log.With("rank", rank), f.svc.metrics.feed())
		wg.Go(func() {
			if err := fd.Run(ctx); err != nil {
				rs.Changed(feed.State{Fault: err.Error()})
				f.svc.log.Error("KV events cannot be followed", "rank", rank, "error", err)
			}
		})
		wg.Go(func() { beat(ctx, rs.Stream) })
	}
	f.stop = func() {
		cancel()
		wg.Wait()
	}
}

// beat sends heartbeats until ctx ends.
func beat(ctx context.Context, s *stream.Stream) {
	t := time.NewTicker(confirmEvery)
	defer t.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if n%int(heartbeatEvery/confirmEvery) == 0 {
			s.Heartbeat()
			continue
		}
		s.Confirm()
	}
}

// halt ends the goroutines of all streams and waits for them.
func (f *follower) halt() {
	f.mu.Lock()
	stop := f.stop
	f.stop = nil
	f.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// refresh tells the streams what a view says: capacity, a worker that is gone or sleeps, adapters pointed elsewhere.
func (f *follower) refresh(v *vllm.View) {
	streams := f.all()
	for _, s := range streams {
		if v.Metrics.GPUBlocks > 0 {
			s.SetCapacity(int(v.Metrics.GPUBlocks))
		}
		switch {
		case v.Life == vllm.Starting:
			s.Void("the worker's port refuses connections: its process is gone")
		case v.Life == vllm.Asleep && v.Metrics.Asleep:
			s.Clear("the engine sleeps: its cache is discarded")
		}
	}
	for _, name := range f.repointed(v.Models) {
		for _, s := range streams {
			s.DropLoRA(name)
		}
	}
	for rank, s := range streams {
		if rank < len(v.Metrics.Ranks) {
			s.silence.look(s.Status().Heard, v.Metrics.Ranks[rank], v.MetricsAt)
		}
	}
}

// repointed names the adapters whose path is another than it was. Names that were unloaded stay remembered: an adapter
// that comes back from the same path keeps its blocks.
func (f *follower) repointed(models []vllm.Model) (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.roots == nil {
		f.roots = map[string]string{}
	}
	for _, m := range models {
		if m.Parent == "" {
			continue
		}
		if old, known := f.roots[m.ID]; known && old != m.Root {
			names = append(names, m.ID)
		}
		f.roots[m.ID] = m.Root
	}
	return names
}

// all are the streams now.
func (f *follower) all() []*rankStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*rankStream(nil), f.streams...)
}

// rank is one stream, or nil.
func (f *follower) rank(n uint32) *rankStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	if int64(n) >= int64(len(f.streams)) {
		return nil
	}
	return f.streams[n]
}

// newStream is an empty stream of one rank.
func (s *Service) newStream(model string, rank int) *stream.Stream {
	copies := mirror.CopiesEach
	if s.cfg.Copies == copiesLast {
		copies = mirror.CopiesLast
	}
	return stream.New(stream.Config{
		WorkerID: s.cfg.ID, Rank: uint32(rank), Mirror: mirror.Config{Model: model, Copies: copies},
	}, stream.Deps{Log: s.log, Publish: s.publisher(model, rank), Clock: s.clock, Metrics: s.metrics.stream()})
}

// publisher sends one rank's deltas.
func (s *Service) publisher(model string, rank int) stream.Publish {
	subject := bus.KV(model, s.cfg.ID, uint32(rank))
	return func(d *eventv1.KvDelta) error { return s.deps.Bus.Publish(context.Background(), subject, d) }
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

// eventState is the health of all streams: that of the worst one, and what to change.
func (f *follower) eventState(v *vllm.View) (workerv1.EventState, string) {
	f.mu.Lock()
	p := f.plan
	f.mu.Unlock()
	if p.model == "" {
		return workerv1.EventState_EVENT_STATE_UNSPECIFIED, ""
	}
	if p.why != "" {
		return workerv1.EventState_EVENT_STATE_OFF, p.why
	}
	state, detail := workerv1.EventState_EVENT_STATE_LIVE, p.hint
	for rank, s := range f.all() {
		if st, why := s.judge(v, rank); severity(st) > severity(state) || detail == "" {
			state, detail = st, why
		}
	}
	return state, detail
}

// connecting is true while a stream's first connection has neither been made nor failed.
func (f *follower) connecting() bool {
	for _, s := range f.all() {
		if st := s.Status(); !st.Feed.Connected && st.Feed.Fault == "" {
			return true
		}
	}
	return false
}

// deaf is true while a stream's last connection has ended or failed.
func (f *follower) deaf() bool {
	for _, s := range f.all() {
		if st := s.Status(); !st.Feed.Connected && st.Feed.Fault != "" {
			return true
		}
	}
	return false
}

// severity orders the states by how little can be said of the cache.
func severity(s workerv1.EventState) int {
	switch s {
	case workerv1.EventState_EVENT_STATE_HYBRID:
		return 1
	case workerv1.EventState_EVENT_STATE_CATCHING_UP:
		return 2
	case workerv1.EventState_EVENT_STATE_SILENT:
		return 3
	case workerv1.EventState_EVENT_STATE_OFF:
		return 4
	}
	return 0
}

// judge is the state of one rank's stream.
func (s *rankStream) judge(v *vllm.View, rank int) (workerv1.EventState, string) {
	st := s.Status()
	switch {
	case !st.Feed.Connected && st.Feed.Fault == "":
		return workerv1.EventState_EVENT_STATE_CATCHING_UP, fmt.Sprintf("rank %d: its publisher is being connected", rank)
	case !st.Feed.Connected:
		return workerv1.EventState_EVENT_STATE_OFF, fmt.Sprintf("rank %d: nothing publishes there (%s): "+
			"events are off, or the worker's endpoint connects instead of binding; start vLLM with %s",
			rank, st.Feed.Fault, vllm.EnableEvents)
	case st.Feed.Mending && st.Feed.ReplayFault == "":
		return workerv1.EventState_EVENT_STATE_CATCHING_UP, fmt.Sprintf("rank %d: missed events are being replayed", rank)
	case s.silence.silent(int(v.Metrics.BlockTokens)):
		return workerv1.EventState_EVENT_STATE_SILENT, fmt.Sprintf("rank %d: the worker computes prompts and "+
			"publishes nothing: check that prefix caching is on, that its topic begins with the adapter's, and that "+
			"events.endpoint is not its replay socket", rank)
	case (st.Feed.Mending || st.Feed.Incomplete) && st.Feed.ReplayFault != "":
		return workerv1.EventState_EVENT_STATE_CATCHING_UP, fmt.Sprintf("rank %d: blocks from before are not known: %s",
			rank, noReplay(st.Feed.ReplayFault))
	case st.Feed.Incomplete:
		return workerv1.EventState_EVENT_STATE_CATCHING_UP, fmt.Sprintf("rank %d: the stream's start could not be "+
			"replayed, so blocks from before are not known: give vLLM a replay_endpoint and more buffer_steps", rank)
	case st.Mirror.Groups > 1 && !st.Mirror.Ruled:
		return workerv1.EventState_EVENT_STATE_HYBRID, fmt.Sprintf("rank %d: hybrid model, and the kind of a cache "+
			"group is not known: no hit is claimed; start vLLM 0.23 or later, or report the kind", rank)
	case st.Mirror.Groups > 1:
		return workerv1.EventState_EVENT_STATE_HYBRID, fmt.Sprintf("rank %d: hybrid model with %d cache groups: only "+
			"the ends of cached prompts can be hit, a shorter prefix hits nothing", rank, st.Mirror.Groups)
	case st.Feed.ReplayFault != "":
		return workerv1.EventState_EVENT_STATE_LIVE, fmt.Sprintf("rank %d: the next lost event costs the whole index: %s",
			rank, noReplay(st.Feed.ReplayFault))
	}
	return workerv1.EventState_EVENT_STATE_LIVE, ""
}

// noReplay says what to look at when a replay socket is configured and does not replay.
func noReplay(fault string) string {
	return fmt.Sprintf("its replay fails (%s): compare vLLM's replay_endpoint with the adapter's events.replay_endpoint",
		fault)
}
