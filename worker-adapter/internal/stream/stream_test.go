package stream_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	eventv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/feed"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/stream"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// consumer keeps a stream as a scheduler does, strictly: any breach of the rules fails the test.
type consumer struct {
	t          *testing.T
	mu         sync.Mutex
	epoch, seq uint64
	held       map[tierUnit]bool
	deltas     int
	largest    int
	fail       error
}

type tierUnit struct {
	tier workerv1.Tier
	unit uint64
}

func (c *consumer) publish(d *eventv1.KvDelta) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	require.Equal(c.t, "w", d.WorkerId)
	require.GreaterOrEqual(c.t, d.Epoch, c.epoch)
	if d.Epoch > c.epoch {
		c.epoch, c.seq, c.held = d.Epoch, 0, map[tierUnit]bool{}
	}
	if d.Heartbeat {
		require.Equal(c.t, c.seq, d.Seq)
		if d.Seq > 0 {
			require.EqualValues(c.t, len(c.held), d.UnitCount)
			require.Equal(c.t, c.digest(), d.Digest)
		}
		return nil
	}
	c.seq++
	c.deltas++
	require.Equal(c.t, c.seq, d.Seq)
	n := 0
	for _, t := range d.Tiers {
		n += len(t.Added) + len(t.Removed)
		for _, u := range t.Removed {
			require.True(c.t, c.held[tierUnit{t.Tier, u}])
			delete(c.held, tierUnit{t.Tier, u})
		}
		for _, u := range t.Added {
			require.False(c.t, c.held[tierUnit{t.Tier, u}])
			c.held[tierUnit{t.Tier, u}] = true
		}
	}
	require.Positive(c.t, n, "a delta changes something")
	c.largest = max(c.largest, n)
	return nil
}

func (c *consumer) digest() uint64 {
	var d kvblock.Digest
	for tu := range c.held {
		d.Add(tu.unit)
	}
	return d.Value()
}

// agree checks a snapshot, in its parts, against the consumer.
func (c *consumer) agree(s stream.Snapshot) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Equal(c.t, c.epoch, s.Epoch)
	require.Equal(c.t, c.seq, s.Seq)
	got := map[tierUnit]bool{}
	last := 0
	require.NoError(c.t, s.Parts(func(p *workerv1.SnapshotResponse) error {
		require.LessOrEqual(c.t, len(p.Units), stream.PartUnits)
		for _, u := range p.Units {
			got[tierUnit{p.Tier, u}] = true
		}
		if p.Last {
			last++
			require.Equal(c.t, c.digest(), p.Digest)
		}
		return nil
	}))
	require.Equal(c.t, 1, last)
	require.Equal(c.t, c.held, got)
}

func newStream(t *testing.T) (*stream.Stream, *consumer, *kittest.Clock) {
	t.Helper()
	c := &consumer{t: t, held: map[tierUnit]bool{}}
	clock := kittest.NewClock()
	s := stream.New(stream.Config{WorkerID: "w", Mirror: mirror.Config{Model: "m"}}, stream.Deps{
		Log: kittest.Logger(t), Publish: c.publish, Clock: clock.Now,
	})
	return s, c, clock
}

// stored makes blocks first to last of one sequence.
func stored(medium, lora string, first, last uint64) *kvevents.Batch {
	ev := kvevents.Event{Kind: kvevents.Stored, BlockTokens: 16, Medium: medium, LoRA: lora}
	for h := first; h <= last; h++ {
		ev.Hashes = append(ev.Hashes, h)
		for i := range uint32(16) {
			ev.TokenIDs = append(ev.TokenIDs, uint32(h)*16+i)
		}
	}
	return &kvevents.Batch{Events: []kvevents.Event{ev}}
}

func TestEpochs(t *testing.T) {
	t.Parallel()
	s, c, clock := newStream(t)
	first := c.epoch
	require.EqualValues(t, clock.Now().UnixMilli(), first)
	s.Apply(stored("GPU", "", 1, 10))
	s.Apply(stored("CPU", "", 1, 4))
	s.Apply(stored("GPU", "ad", 11, 12))
	s.Heartbeat()
	require.Len(t, c.held, 16)
	c.agree(s.Snapshot())
	s.DropLoRA("ad")
	require.Len(t, c.held, 14)
	require.Equal(t, first, c.epoch, "an adapter's end is no new epoch")

	s.Clear("slept")
	require.Equal(t, first+1, c.epoch, "numbers grow even when the clock stands still")
	require.Len(t, c.held, 4, "the CPU tier is carried over")
	c.agree(s.Snapshot())
	s.Clear("slept again")
	require.Equal(t, first+1, c.epoch, "nothing to clear is no new epoch")

	clock.Advance(1e9)
	s.Apply(&kvevents.Batch{Events: []kvevents.Event{{Kind: kvevents.Cleared}, stored("GPU", "", 20, 21).Events[0]}})
	require.Equal(t, first+1000, c.epoch)
	require.Len(t, c.held, 6)
	s.Restart("worker restarted")
	require.Empty(t, c.held)
	s.Apply(stored("GPU", "", 1, 2))
	s.Void("gone")
	s.Void("gone")
	require.Empty(t, c.held)
	c.agree(s.Snapshot())
	require.Equal(t, "gone", s.Status().Reason)
}

// TestSuspended: nothing is claimed until the next step, which brings back what it does not clear.
func TestSuspended(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		after func(*stream.Stream)
		held  int
	}{
		{"a step that stores", func(s *stream.Stream) { s.Apply(stored("GPU", "", 20, 21)) }, 18},
		{"a step that removes", func(s *stream.Stream) {
			s.Apply(&kvevents.Batch{Events: []kvevents.Event{{Kind: kvevents.Removed, Medium: "GPU", Hashes: []uint64{10}}}})
		}, 15},
		{"a step that clears", func(s *stream.Stream) {
			s.Apply(&kvevents.Batch{Events: []kvevents.Event{{Kind: kvevents.Cleared}, stored("GPU", "", 20, 21).Events[0]}})
		}, 6},
		{"a sleep", func(s *stream.Stream) { s.Clear("slept") }, 4},
		{"other signs", func(s *stream.Stream) {
			s.Release("nothing was cleared")
			s.Release("a second time is none")
		}, 16},
		{"a restart", func(s *stream.Stream) { s.Restart("again") }, 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s, c, _ := newStream(t)
			s.Suspend("an empty mirror claims nothing")
			first := c.epoch
			s.Apply(stored("GPU", "", 1, 10))
			s.Apply(stored("CPU", "", 1, 4))
			s.Apply(stored("GPU", "ad", 11, 12))
			require.Equal(t, first, c.epoch)
			for range 2 {
				s.Suspend("paused")
				require.Equal(t, first+1, c.epoch, "once")
				require.Empty(t, c.held)
				require.Zero(t, s.Snapshot().Digest)
				c.agree(s.Snapshot())
				s.Heartbeat()
			}
			s.DropLoRA("ad")
			require.Empty(t, c.held)
			s.Apply(stored("GPU", "ad", 11, 12))
			s.Suspend("paused again")
			row.after(s)
			s.Heartbeat()
			c.agree(s.Snapshot())
			require.Len(t, c.held, row.held)
		})
	}
}

// TestSplit: a long step leaves as several deltas with consecutive numbers.
func TestSplit(t *testing.T) {
	t.Parallel()
	s, c, _ := newStream(t)
	s.Apply(stored("GPU", "", 1, 2*stream.MaxDeltaUnits+5))
	require.Equal(t, 3, c.deltas)
	require.Equal(t, stream.MaxDeltaUnits, c.largest)
	require.Len(t, c.held, 2*stream.MaxDeltaUnits+5)
	c.agree(s.Snapshot())
}

// TestLost: a delta that could not be published still used its number up, so that consumers see the gap.
func TestLost(t *testing.T) {
	t.Parallel()
	s, c, _ := newStream(t)
	c.fail = errors.New("disconnected")
	s.Apply(stored("GPU", "", 1, 2))
	require.EqualValues(t, 1, s.Snapshot().Seq)
	require.Zero(t, c.seq)
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s, _, clock := newStream(t)
	require.True(t, s.Status().Heard.IsZero())
	s.SetCapacity(100)
	s.Apply(stored("GPU", "", 1, 2))
	s.Changed(feed.State{Connected: true})
	st := s.Status()
	require.Equal(t, clock.Now(), st.Heard)
	require.True(t, st.Feed.Connected)
	require.Equal(t, 2, st.Mirror.Units)
}

// TestSnapshotWhileEventsFlow: each snapshot equals what the deltas up to its number make.
func TestSnapshotWhileEventsFlow(t *testing.T) {
	t.Parallel()
	var log []*eventv1.KvDelta // appended under the stream's lock
	s := stream.New(stream.Config{WorkerID: "w", Mirror: mirror.Config{Model: "m"}}, stream.Deps{
		Log: kittest.Logger(t), Clock: kittest.NewClock().Now,
		Publish: func(d *eventv1.KvDelta) error { log = append(log, d); return nil },
	})
	snapshots := make(chan stream.Snapshot, 64)
	done := make(chan struct{})
	go func() {
		defer close(snapshots)
		for range 50 {
			snapshots <- s.Snapshot()
		}
	}()
	go func() {
		defer close(done)
		rng := rand.New(rand.NewPCG(3, 4))
		for i := range uint64(3000) {
			s.Apply(stored("GPU", "", i*8+1, i*8+1+rng.Uint64N(8)))
			gone := kvevents.Event{Kind: kvevents.Removed, Medium: "GPU", Hashes: []uint64{rng.Uint64N(i*8 + 1)}}
			s.Apply(&kvevents.Batch{Events: []kvevents.Event{gone}})
		}
	}()
	<-done
	for snap := range snapshots {
		var d kvblock.Digest
		n := 0
		for _, delta := range log {
			if delta.Seq > snap.Seq || delta.Epoch != snap.Epoch {
				continue
			}
			for _, tier := range delta.Tiers {
				d.AddAll(tier.Added)
				d.RemoveAll(tier.Removed)
				n += len(tier.Added) - len(tier.Removed)
			}
		}
		require.Equal(t, d.Value(), snap.Digest)
		require.Len(t, snap.Tiers[mirror.GPU], n)
	}
}

// TestConfirmOnlyAfterDeltas: what was confirmed once is not repeated before its heartbeat.
func TestConfirmOnlyAfterDeltas(t *testing.T) {
	t.Parallel()
	beats := []uint64{}
	s := stream.New(stream.Config{WorkerID: "w", Mirror: mirror.Config{Model: "m"}}, stream.Deps{
		Log: kittest.Logger(t), Clock: kittest.NewClock().Now,
		Publish: func(d *eventv1.KvDelta) error {
			if d.Heartbeat {
				beats = append(beats, d.Seq)
			}
			return nil
		},
	})
	require.Equal(t, []uint64{0}, beats, "an epoch begins")
	s.Confirm()
	require.Len(t, beats, 1)
	s.Apply(stored("GPU", "", 1, 2))
	s.Confirm()
	s.Confirm()
	require.Equal(t, []uint64{0, 1}, beats)
	s.Heartbeat()
	s.Apply(stored("GPU", "", 3, 3))
	s.Restart("again")
	s.Confirm()
	require.Equal(t, []uint64{0, 1, 1, 0}, beats, "a new epoch has nothing to confirm")
}
