package workeradapter

import (
	"context"
	"sync"
	"time"

	eventv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/services/kit/bus"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/feed"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/stream"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

const (
	// heartbeatEvery is the longest pause between two heartbeats of a stream.
	heartbeatEvery = time.Second
	// confirmEvery is the pause between two of a stream that sends deltas: how long a lost last delta stays unseen.
	confirmEvery = heartbeatEvery / 5
)

// rankStream is one rank's stream and the goroutines that feed it.
type rankStream struct {
	*stream.Stream
	silence silence
	pause   pause
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
			r := reading{v.Metrics.Ranks[rank], v.MetricsAt, v.Metrics.BlockTokens}
			s.silence.look(s.Status().Heard, r)
			s.lookPaused(v, r)
		}
	}
}

// lookPaused withholds the blocks of an engine that is paused with nothing running, and gives them back when it has run on
// without a word of a clear.
func (s *rankStream) lookPaused(v *vllm.View, r reading) {
	switch {
	case v.Life == vllm.Asleep && !v.Metrics.Asleep && !v.Busy():
		s.Suspend("the engine is paused: it may have cleared its cache")
		s.pause.stands(r)
	case v.Life == vllm.Ready && s.pause.over(r):
		if st := s.Status().Feed; st.Connected && !st.Mending {
			s.Release("the engine has run since its pause and cleared nothing")
		}
	}
}

// maxRoots bounds the adapters' paths that are remembered.
const maxRoots = mirror.DefaultMaxNames

// repointed names the adapters whose path is another than it was. Names that were unloaded stay remembered: an adapter
// that comes back from the same path keeps its blocks. Beyond maxRoots names those that are not loaded are forgotten and
// named too: nobody could tell any more what they stand for.
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
	if len(f.roots) > maxRoots {
		loaded := map[string]bool{}
		for _, m := range models {
			loaded[m.ID] = true
		}
		for name := range f.roots {
			if !loaded[name] {
				delete(f.roots, name)
				names = append(names, name)
			}
		}
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
