package index

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

func TestWalkTiersAndGaps(t *testing.T) {
	t.Parallel()
	chain := []uint64{10, 11, 12, 13, 14, 15}
	rows := []struct {
		name string
		hold func(*Stream)
		want Hit
	}{
		{"nothing", func(*Stream) {}, Hit{}},
		{"all on the device", func(s *Stream) { s.Add(Device, chain) }, Hit{Units: 6}},
		{"all in host memory", func(s *Stream) { s.Add(Host, chain) }, Hit{Units: 6, Slow: 6}},
		{"head on the device, tail on disk", func(s *Stream) {
			s.Add(Device, chain[:4])
			s.Add(Storage, chain[4:])
		}, Hit{Units: 6, Slow: 2}},
		{"in both tiers", func(s *Stream) {
			s.Add(Host, chain)
			s.Add(Device, chain[1:3])
		}, Hit{Units: 6, Slow: 4}},
		{"a gap ends it", func(s *Stream) {
			s.Add(Device, chain[:2])
			s.Add(Device, chain[3:])
		}, Hit{Units: 2}},
		{"without the first unit nothing counts", func(s *Stream) { s.Add(Device, chain[1:]) }, Hit{}},
		{"a gap filled by another tier", func(s *Stream) {
			s.Add(Device, chain[:2])
			s.Add(Device, chain[3:])
			s.Add(Host, chain[2:3])
		}, Hit{Units: 6, Slow: 1}},
		{"removed from one of two tiers", func(s *Stream) {
			s.Add(Device, chain)
			s.Add(Host, chain)
			s.Remove(Device, chain)
		}, Hit{Units: 6, Slow: 6}},
		{"one tier cleared", func(s *Stream) {
			s.Add(Device, chain[:3])
			s.Add(Host, chain[3:])
			s.Clear(Host)
		}, Hit{Units: 3}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			x := New(Config{})
			other, s := x.Open(), x.Open()
			other.Add(Device, chain[:1])
			row.hold(s)
			var w Walk
			x.Walk(chain, &w)
			require.Equal(t, row.want, w.Hit(s.Number()))
			require.Equal(t, Hit{Units: 1}, w.Hit(other.Number()))
			require.Equal(t, Hit{}, w.Hit(999))
			require.Equal(t, max(1, row.want.Units), w.Held())
		})
	}
}

func TestReplaceIsSeenAtCommitOnly(t *testing.T) {
	t.Parallel()
	x := New(Config{})
	s := x.Open()
	s.Add(Device, []uint64{1, 2, 3})
	load := s.Replace()
	require.Equal(t, 2, load.Add(Device, []uint64{1, 9}))
	require.Equal(t, 1, load.Add(Host, []uint64{1}))
	require.Equal(t, 0, load.Add(Host, nil))
	require.Equal(t, 3, load.Units())
	require.Equal(t, kvblock.DigestOf([]uint64{1, 9, 1}), load.Digest())
	require.Zero(t, load.Lost())
	require.False(t, s.Holds(9))
	require.True(t, s.Holds(2))
	require.Equal(t, 3, s.Units())
	load.Commit()
	require.True(t, s.Holds(9))
	require.False(t, s.Holds(2))
	require.Equal(t, 3, s.Units())
	require.Equal(t, kvblock.DigestOf([]uint64{1, 9, 1}), s.Digest())
	load.Abort() // after a commit it means nothing
	require.True(t, s.Holds(9))
	empty := s.Replace()
	empty.Commit()
	require.Zero(t, s.Units())
}

func TestNumbersAreReusedWithoutTheirPast(t *testing.T) {
	t.Parallel()
	x := New(Config{})
	a, b := x.Open(), x.Open()
	a.Add(Device, []uint64{1, 2})
	number := a.Number()
	a.Close()
	a.Close()
	c := x.Open()
	require.Equal(t, number, c.Number())
	require.NotEqual(t, b.Number(), c.Number())
	var w Walk
	x.Walk([]uint64{1, 2}, &w)
	require.Equal(t, Hit{}, w.Hit(c.Number()))
	c.Add(Device, []uint64{1})
	x.Sweep()
	x.Walk([]uint64{1, 2}, &w)
	require.Equal(t, Hit{Units: 1}, w.Hit(c.Number()))
}

func TestRepeatedChangesCountOnce(t *testing.T) {
	t.Parallel()
	x := New(Config{})
	s := x.Open()
	require.Equal(t, 2, s.Add(Device, []uint64{1, 2, 1}))
	require.Zero(t, s.Add(Device, []uint64{1, 2}))
	require.Equal(t, 1, s.Remove(Device, []uint64{1, 1, 7}))
	require.Zero(t, s.Remove(Host, []uint64{2}))
	require.Equal(t, 1, s.Units())
	require.Equal(t, kvblock.DigestOf([]uint64{2}), s.Digest())
}

// TestSharedSetsAreShared: a prefix held by many costs one set, not one per unit.
func TestSharedSetsAreShared(t *testing.T) {
	t.Parallel()
	x := New(Config{})
	chain := randomUnits(rand.New(rand.NewPCG(2, 2)), 3000)
	var streams []*Stream
	for range 50 {
		s := x.Open()
		s.Add(Device, chain)
		streams = append(streams, s)
	}
	require.Equal(t, int64(setBytes+2*50), x.sets.size())
	for _, s := range streams[:25] {
		s.Remove(Device, chain[:1500])
	}
	require.Equal(t, int64(2*setBytes+2*50+2*25), x.sets.size())
	for _, s := range streams[4:] {
		s.Close()
	}
	x.Sweep()
	require.Zero(t, x.sets.size(), "four holders fit beside the unit")
	var w Walk
	x.Walk(chain, &w)
	require.Zero(t, w.Hit(streams[0].Number()).Units, "their first half is gone")
	x.Walk(chain[1500:], &w)
	require.Equal(t, 1500, w.Hit(streams[0].Number()).Units)
}

// TestStaleWordsAreReadAgain takes the shared set away between fetch and use, as a concurrent writer would.
func TestStaleWordsAreReadAgain(t *testing.T) {
	t.Parallel()
	x := New(Config{})
	chain := []uint64{1, 2, 3}
	var streams []*Stream
	for range 6 {
		s := x.Open()
		s.Add(Device, chain)
		streams = append(streams, s)
	}
	w := Walk{reach: make([]reach, 6)}
	require.Equal(t, 3, x.fetch(chain, &w))
	streams[5].Remove(Device, chain[1:]) // the old set lives on in unit 1
	streams[4].Remove(Device, chain)     // and is gone now
	st := step{at: 0, run: 3}
	require.False(t, x.extend(&w, st, w.words[0]))
	require.True(t, x.extendStale(&w, st, chain, w.words[0]))
	require.Equal(t, Hit{Units: 3}, w.Hit(streams[0].Number()))
	require.Equal(t, Hit{Units: 1}, w.Hit(streams[5].Number()))
	require.Equal(t, Hit{}, w.Hit(streams[4].Number()))
	require.Equal(t, 3, w.Held())
}

func TestWalkAllocatesNothing(t *testing.T) {
	x := New(Config{})
	chain := randomUnits(rand.New(rand.NewPCG(2, 2)), 512)
	for range 96 {
		x.Open().Add(Device, chain)
	}
	var w Walk
	x.Walk(chain, &w)
	require.Zero(t, testing.AllocsPerRun(100, func() { x.Walk(chain, &w) }))
}
