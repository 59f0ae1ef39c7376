package feed

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
)

var epochStart = time.Unix(50_000, 0)

// script drives one stream by hand.
type script struct {
	t       *testing.T
	now     time.Time
	machine *Machine
	counts  Counts
	asks    []Ask
	changes int
	stream  *Stream
}

func newScript(t *testing.T, change func(*Limits)) *script {
	s := &script{t: t, now: epochStart}
	limits := DefaultLimits()
	if change != nil {
		change(&limits)
	}
	s.machine = New(index.New(index.Config{}), limits, Hooks{
		Ask: func(a Ask) { s.asks = append(s.asks, a) }, Changed: func(Key) { s.changes++ }, Counts: &s.counts,
	})
	s.stream = s.machine.Open(s.now, Key{Worker: "w"}, "address")
	return s
}

// ask returns the only ask that waits, and takes it.
func (s *script) ask() Ask {
	s.t.Helper()
	require.Len(s.t, s.asks, 1)
	a := s.asks[0]
	s.asks = nil
	return a
}

// answer delivers a snapshot of these units.
func (s *script) answer(a Ask, epoch, seq uint64, units ...uint64) {
	a.Load.Add(index.Device, units)
	s.machine.Snapshot(s.now, a, Answer{Epoch: epoch, Seq: seq, Digest: kvblock.DigestOf(units)})
}

func (s *script) delta(epoch, seq uint64, added ...uint64) {
	s.machine.Delta(s.now, &eventv1.KvDelta{
		WorkerId: "w", Epoch: epoch, Seq: seq,
		Tiers: []*eventv1.TierDelta{{Tier: workerv1.Tier_TIER_GPU, Added: added}},
	})
}

func (s *script) beat(epoch, seq uint64, units ...uint64) {
	s.machine.Delta(s.now, &eventv1.KvDelta{
		WorkerId: "w", Epoch: epoch, Seq: seq, Heartbeat: true,
		UnitCount: uint64(len(units)), Digest: kvblock.DigestOf(units),
	})
}

func (s *script) sleep(d time.Duration) {
	s.now = s.now.Add(d)
	s.machine.Tick(s.now)
}

// live brings the stream to epoch 3, seq 10, holding 1 and 2.
func (s *script) live() {
	s.t.Helper()
	s.answer(s.ask(), 3, 10, 1, 2)
	require.Equal(s.t, Live, s.stream.State())
}

func (s *script) at(epoch, seq uint64, units int) {
	s.t.Helper()
	e, q := s.stream.Position()
	require.Equal(s.t, []uint64{epoch, seq}, []uint64{e, q})
	require.Equal(s.t, units, s.stream.Units())
}

func TestAStreamBeginsWithASnapshot(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	require.Equal(t, Empty, s.stream.State())
	a := s.ask()
	require.Equal(t, "address", a.Address)
	require.Equal(t, Key{Worker: "w"}, a.Key)
	s.asks = append(s.asks, a)
	s.live()
	s.at(3, 10, 2)
	require.Equal(t, 1, s.changes)
	require.Same(t, s.stream, s.machine.Open(s.now, Key{Worker: "w"}, "moved"))
	require.Empty(t, s.asks)
	s.delta(3, 12)
	require.Equal(t, "moved", s.ask().Address)
}

func TestDeltasApplyInOrderAndOnce(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	s.live()
	s.delta(3, 11, 5)
	s.delta(3, 11, 6) // a repeated seq is not looked into
	s.delta(3, 9, 7)
	s.delta(2, 12, 8) // of an epoch that is over
	s.at(3, 11, 3)
	require.True(t, s.stream.Holds(5))
	require.False(t, s.stream.Holds(6))
	require.Equal(t, uint64(3), s.counts.Duplicates.Load())
	require.Equal(t, uint64(1), s.counts.Deltas.Load())
	require.Empty(t, s.asks)
}

func TestClearComesBeforeTheChanges(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	s.live()
	s.machine.Delta(s.now, &eventv1.KvDelta{WorkerId: "w", Epoch: 3, Seq: 11, Tiers: []*eventv1.TierDelta{
		{Tier: workerv1.Tier_TIER_CPU, Added: []uint64{1, 9}},
		{Tier: workerv1.Tier_TIER_GPU, Cleared: true, Added: []uint64{4}},
	}})
	s.at(3, 11, 3)
	require.True(t, s.stream.Holds(1), "in host memory")
	require.False(t, s.stream.Holds(2))
	require.True(t, s.stream.Holds(4))
}

func TestAGapKeepsTheOldUntilTheSnapshot(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	s.live()
	s.delta(3, 12, 6)
	require.Equal(t, Mending, s.stream.State())
	s.at(3, 10, 2)
	s.delta(3, 13, 7)
	s.answer(s.ask(), 3, 12, 1, 6)
	require.Equal(t, Live, s.stream.State())
	s.at(3, 13, 3)
	require.False(t, s.stream.Holds(2))
	require.True(t, s.stream.Holds(7), "buffered behind the snapshot")
}

func TestANewEpochDropsTheOldAtOnce(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	s.live()
	s.delta(4, 1, 5)
	require.Equal(t, Empty, s.stream.State())
	require.Zero(t, s.stream.Units())
	a := s.ask()
	s.delta(4, 2, 6)
	s.answer(a, 4, 1, 5)
	s.at(4, 2, 2)
	require.Equal(t, Live, s.stream.State())
	require.Equal(t, uint64(1), s.counts.Mends[CauseEpoch].Load())
}

func TestASnapshotOfAnOldEpochDoesNotCount(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	a := s.ask()
	s.beat(5, 0)
	s.beat(6, 0)
	s.answer(a, 5, 3, 1)
	require.Equal(t, Empty, s.stream.State())
	require.Zero(t, s.stream.Units())
	require.Empty(t, s.asks, "the next ask waits")
	s.sleep(50 * time.Millisecond)
	s.answer(s.ask(), 6, 0)
	require.Equal(t, Live, s.stream.State())
}

func TestASnapshotOfANewerEpochBeginsIt(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	s.live()
	s.delta(3, 12)
	s.answer(s.ask(), 4, 7, 9)
	s.at(4, 7, 1)
	s.delta(3, 13, 5)
	s.delta(4, 8, 5)
	s.at(4, 8, 2)
}

func TestAHeartbeatRevealsWhatWasLost(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		beat  func(*script)
		mends bool
	}{
		{"nothing", func(s *script) { s.beat(3, 10, 1, 2) }, false},
		{"a delta", func(s *script) { s.beat(3, 11, 1, 2) }, true},
		{"a unit", func(s *script) { s.beat(3, 10, 1) }, true},
		{"another unit", func(s *script) { s.beat(3, 10, 1, 3) }, true},
		{"overtaken by a delta", func(s *script) { s.beat(3, 9, 7) }, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, nil)
			s.live()
			row.beat(s)
			require.Equal(t, row.mends, s.stream.State() == Mending)
			require.Equal(t, row.mends, len(s.asks) == 1)
		})
	}
}

func TestFailedSnapshotsAreAskedForAgainMoreAndMoreRarely(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	for _, wait := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
		s.machine.Snapshot(s.now, s.ask(), Answer{Err: errors.New("away")})
		s.sleep(wait*time.Millisecond - time.Millisecond)
		require.Empty(t, s.asks, "%d ms", wait)
		s.sleep(time.Millisecond)
	}
	s.live()
	require.Equal(t, uint64(7), s.counts.Failures.Load())
}

func TestADamagedSnapshotIsAFailure(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	a := s.ask()
	a.Load.Add(index.Device, []uint64{1, 2})
	s.machine.Snapshot(s.now, a, Answer{Epoch: 1, Digest: 99})
	require.Equal(t, Empty, s.stream.State())
	require.Zero(t, s.stream.Units())
	require.Equal(t, uint64(1), s.counts.Failures.Load())
}

func TestAnAskWithoutAnswerIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	old := s.ask()
	s.sleep(10*time.Second + time.Millisecond)
	s.sleep(50 * time.Millisecond)
	s.live()
	s.answer(old, 3, 99, 7) // too late
	s.at(3, 10, 2)
}

func TestAnOverflowingBufferIsGivenUpAndMendedByItsGap(t *testing.T) {
	t.Parallel()
	s := newScript(t, func(l *Limits) { l.BufferUnits = 6 })
	a := s.ask()
	s.delta(3, 11, 1, 2)
	s.delta(3, 12, 3, 4)
	s.delta(3, 13, 5) // one too many
	require.Equal(t, uint64(1), s.counts.Overflows.Load())
	s.answer(a, 3, 10)
	require.Equal(t, Live, s.stream.State(), "nothing buffered speaks against it")
	s.delta(3, 14, 6)
	require.Equal(t, Mending, s.stream.State())
	s.answer(s.ask(), 3, 14, 1, 2, 3, 4, 5, 6)
	s.at(3, 14, 6)
}

func TestABusThatWasAwayMendsAllStreams(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	s.live()
	other := s.machine.Open(s.now, Key{Worker: "v", Rank: 2}, "")
	s.answer(s.ask(), 1, 0)
	require.Equal(t, Live, other.State())
	s.sleep(2 * time.Second)
	s.machine.Disturb(s.now)
	require.Len(t, s.asks, 2)
	require.Equal(t, Mending, other.State())
}

func TestMendsInARowWait(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	s.live()
	s.sleep(2 * time.Second)
	s.delta(3, 20)
	s.answer(s.ask(), 3, 20)
	s.delta(3, 30)
	s.answer(s.ask(), 3, 30) // the first one after a calm time did not make it wait
	s.delta(3, 40)
	require.Empty(t, s.asks, "the next one does")
	require.Equal(t, Mending, s.stream.State())
	s.sleep(50 * time.Millisecond)
	s.answer(s.ask(), 3, 40)
	require.Equal(t, Live, s.stream.State())
}

// TestANewEpochEndsTheWait: failures while an adapter was away say nothing about the one that is back. A worker that
// begins epoch after epoch gets no more asks for it.
func TestANewEpochEndsTheWait(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	s.live()
	s.sleep(2 * time.Second)
	s.delta(3, 12)
	for range 8 { // its adapter is gone: the wait grows to RetryMax
		s.machine.Snapshot(s.now, s.ask(), Answer{Err: errors.New("refused")})
		s.sleep(time.Second)
	}
	s.machine.Snapshot(s.now, s.ask(), Answer{Err: errors.New("refused")})
	s.sleep(100 * time.Millisecond)
	require.Empty(t, s.asks)
	s.beat(4, 0)
	s.answer(s.ask(), 4, 0)
	s.at(4, 0, 0)
	require.Equal(t, Live, s.stream.State())
	asked := 0
	for epoch := range uint64(3) {
		s.beat(5+epoch, 0)
		for _, a := range s.asks {
			s.machine.Snapshot(s.now, a, Answer{Err: errors.New("refused")})
			asked++
		}
		s.asks = nil
	}
	require.Equal(t, 1, asked)
}

// TestMendsInARowWaitByWhatTheyCost: a snapshot that took long makes the next one wait up to RetryMax, a quick one hardly.
func TestMendsInARowWaitByWhatTheyCost(t *testing.T) {
	t.Parallel()
	for took, longest := range map[time.Duration]time.Duration{
		time.Millisecond: 50 * time.Millisecond, 10 * time.Millisecond: 200 * time.Millisecond, time.Second: time.Second,
	} {
		s := newScript(t, nil)
		s.live()
		var waits []time.Duration
		for seq := uint64(20); seq < 30; seq++ {
			s.delta(3, 10*seq)
			waited := time.Duration(0)
			for ; len(s.asks) == 0; waited += 10 * time.Millisecond {
				s.sleep(10 * time.Millisecond)
			}
			waits = append(waits, waited)
			s.now = s.now.Add(took)
			s.answer(s.ask(), 3, 10*seq)
		}
		require.LessOrEqual(t, slices.Max(waits), longest, "after snapshots of %s: %v", took, waits)
		if took < time.Second { // past RetryMax between two, none waits
			require.GreaterOrEqual(t, slices.Max(waits), longest-took-10*time.Millisecond, "%s: %v", took, waits)
		}
	}
}

// TestASnapshotIsNews: who answers with all that there is has been heard, though the bus brought nothing.
func TestASnapshotIsNews(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	_, ever := s.stream.Heard()
	require.False(t, ever)
	s.live()
	first, ever := s.stream.Heard()
	require.True(t, ever)
	require.Equal(t, s.now, first)
	s.sleep(time.Minute)
	s.machine.Disturb(s.now)
	s.answer(s.ask(), 2, 99, 1) // of an epoch that is over
	old, _ := s.stream.Heard()
	require.Equal(t, first, old)
	s.sleep(time.Second)
	s.answer(s.ask(), 3, 10, 1, 2)
	now, _ := s.stream.Heard()
	require.Equal(t, s.now, now)
}

func TestAClosedStreamIsGone(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	a := s.ask()
	s.machine.Close(Key{Worker: "w"})
	s.machine.Close(Key{Worker: "w"})
	s.answer(a, 3, 1, 1, 2)
	s.delta(3, 2, 5)
	require.Equal(t, uint64(1), s.counts.Strangers.Load())
	s.machine.index.Sweep()
	require.Zero(t, s.machine.index.Stats().Units)
	require.Zero(t, s.machine.index.Stats().Streams)
}

func TestAnAdapterWhoseClockWentBackIsBelievedAfterSilence(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	s.beat(9, 0)
	s.answer(s.ask(), 9, 0)
	s.beat(4, 0)
	require.Equal(t, Live, s.stream.State(), "an old message")
	s.sleep(6 * time.Second)
	s.beat(4, 0)
	require.Equal(t, Empty, s.stream.State())
	s.answer(s.ask(), 4, 0, 1)
	s.at(4, 0, 1)
}

func TestTiers(t *testing.T) {
	t.Parallel()
	require.Equal(t, index.Device, TierOf(workerv1.Tier_TIER_UNSPECIFIED))
	require.Equal(t, index.Device, TierOf(workerv1.Tier_TIER_GPU))
	require.Equal(t, index.Host, TierOf(workerv1.Tier_TIER_CPU))
	require.Equal(t, index.Storage, TierOf(workerv1.Tier_TIER_STORAGE))
	require.Equal(t, []string{"start", "epoch", "gap", "audit", "bus", "snapshot"}, Causes())
}

// FuzzMachine feeds arbitrary messages and answers: it must not panic, and a stream that is live holds what its digest says.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{0, 1, 1, 2, 1, 1, 2, 3, 2, 1, 2, 0, 3, 1, 1, 1})
	f.Add([]byte{3, 1, 0, 1, 0, 1, 2, 5, 0, 2, 1, 5, 3, 2, 1, 9, 4, 0, 0, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		s := newScript(t, func(l *Limits) { l.BufferUnits = 20 })
		for ops = ops[:min(len(ops), 4*200)]; len(ops) >= 4; ops = ops[4:] {
			epoch, seq, unit := uint64(ops[1]%4), uint64(ops[2]%16), uint64(ops[3])
			switch ops[0] % 6 {
			case 0, 1:
				s.delta(epoch, seq, unit, unit+1)
			case 2:
				s.beat(epoch, seq, unit)
			case 3:
				for len(s.asks) > 0 {
					a := s.asks[0]
					s.asks = s.asks[1:]
					s.answer(a, epoch, seq, unit)
				}
			case 4:
				s.sleep(time.Duration(ops[3]) * 10 * time.Millisecond)
			case 5:
				s.machine.Disturb(s.now)
			}
		}
		if s.stream.State() == Live {
			units := 0
			for u := range uint64(257) {
				if s.stream.Holds(u) {
					units++
				}
			}
			require.Equal(t, units, s.stream.Units())
		}
	})
}

// TestHybridStreamsReachBoundaries: the mark comes and goes with the stream's contents, by delta and by snapshot.
func TestHybridStreamsReachBoundaries(t *testing.T) {
	t.Parallel()
	s := newScript(t, nil)
	s.live()
	require.False(t, s.stream.Hybrid())
	path := []uint64{1, 2, 5, 6, 7, 8}
	s.delta(3, 11, append([]uint64{kvblock.HybridMark, kvblock.Boundary(6), kvblock.Boundary(8)}, path[2:]...)...)
	require.True(t, s.stream.Hybrid())
	for n, want := range []int{0, 0, 0, 0, 4, 4, 6} {
		require.Equal(t, want, s.stream.Reach(path[:n], 1), n)
		require.Equal(t, want, s.stream.Reach(path[:n], 2), n)
	}
	require.Zero(t, s.stream.Reach(path, 5), "no block ends there")
	s.delta(4, 1)
	s.answer(s.ask(), 4, 1, 1, 2)
	require.False(t, s.stream.Hybrid(), "the worker began anew")
	s.delta(4, 3)
	s.sleep(time.Second)
	s.answer(s.ask(), 4, 3, 1, 2, kvblock.HybridMark, kvblock.Boundary(2))
	require.True(t, s.stream.Hybrid())
	require.Equal(t, 2, s.stream.Reach(path[:2], 1))
}
