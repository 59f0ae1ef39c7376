package mirror_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
)

// inGroup puts an event into a cache group; window 0 is full attention.
func inGroup(ev kvevents.Event, group, window int) kvevents.Event {
	ev.Group, ev.WindowTokens, ev.SpecKind = group, window, "full_attention"
	if window > 0 {
		ev.SpecKind = "sliding_window"
	}
	return ev
}

// sliding announces the last blocks of a range of blocks, as a sliding group does: the ids cover the whole range.
func sliding(group, window int, whole kvevents.Event, last int) kvevents.Event {
	ev := inGroup(whole, group, window)
	ev.Hashes = whole.Hashes[len(whole.Hashes)-last:]
	return ev
}

// ofKind is an event of a group of another kind.
func ofKind(ev kvevents.Event, group int, kind string) kvevents.Event {
	ev.Group, ev.SpecKind = group, kind
	return ev
}

// TestHybrid: a hit ends only where every group can serve it.
func TestHybrid(t *testing.T) {
	t.Parallel()
	ten := stored(16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	next := stored(16, 10, 11, 12)
	two := stored(16, 0, 1, 2)
	rows := []struct {
		name  string
		steps [][]kvevents.Event
		// ends are the blocks at which a hit can end, deepest last.
		ends []int
	}{
		{"window of one block: each block that both have", [][]kvevents.Event{
			{sliding(0, 17, ten, 3), inGroup(ten, 1, 0)},
		}, []int{8, 9, 10}},
		{"window of three blocks: the last has them behind it", [][]kvevents.Event{
			{sliding(0, 49, ten, 3), inGroup(ten, 1, 0)},
		}, []int{10}},
		{"window of four blocks: three are too few", [][]kvevents.Event{
			{sliding(0, 65, ten, 3), inGroup(ten, 1, 0)},
		}, nil},
		{"a window may reach the start of the sequence", [][]kvevents.Event{
			{inGroup(two, 0, 1000), inGroup(two, 1, 0)},
		}, []int{1, 2}},
		{"the window goes on in the next step", [][]kvevents.Event{
			{sliding(0, 33, ten, 2), inGroup(ten, 1, 0)}, {sliding(0, 33, next, 2), inGroup(next, 1, 0)},
		}, []int{10, 11, 12}},
		{"a second group seen later takes back what was claimed", [][]kvevents.Event{
			{inGroup(ten, 1, 0)}, {sliding(0, 33, next, 2), inGroup(next, 1, 0)},
		}, []int{12}},
		{"a third group that has nothing", [][]kvevents.Event{
			{sliding(0, 33, ten, 2), inGroup(ten, 1, 0)}, {inGroup(stored(16, 0, 90), 2, 33)},
		}, nil},
		{"a block leaves one group", [][]kvevents.Event{
			{sliding(0, 33, ten, 3), inGroup(ten, 1, 0)}, {inGroup(removed(10), 0, 0)},
		}, []int{9}},
		{"a block in the middle of a window leaves", [][]kvevents.Event{
			{sliding(0, 33, ten, 3), inGroup(ten, 1, 0)}, {inGroup(removed(9), 0, 0)},
		}, nil},
		{"the full group loses a boundary", [][]kvevents.Event{
			{sliding(0, 33, ten, 3), inGroup(ten, 1, 0)}, {inGroup(removed(10), 1, 0)},
		}, []int{9}},
		{"the full group loses a block before the window", [][]kvevents.Event{
			{sliding(0, 33, ten, 3), inGroup(ten, 1, 0)}, {inGroup(removed(4), 1, 0)},
		}, nil},
		{"sliding groups only: nothing can be computed", [][]kvevents.Event{
			{sliding(0, 33, ten, 2), sliding(1, 33, ten, 2)},
		}, nil},
		{"decode steps name no block in the sliding group", [][]kvevents.Event{
			{sliding(0, 33, ten, 2), inGroup(ten, 1, 0)},
			{
				inGroup(with(stored(16, 10, 11), func(ev *kvevents.Event) { ev.Hashes = nil }), 0, 33),
				inGroup(stored(16, 10, 11), 1, 0),
			},
		}, []int{10}},
		{"a Mamba group needs its state at the end alone", [][]kvevents.Event{
			{inGroup(ten, 0, 0), ofKind(sliding(1, 0, ten, 1), 1, "mamba")},
		}, []int{10}},
		{"two full groups: the path needs both", [][]kvevents.Event{
			{inGroup(ten, 0, 0), inGroup(ten, 1, 0)}, {inGroup(removed(6), 1, 0)},
		}, []int{1, 2, 3, 4, 5}},
		{"a kind whose rule is not known claims nothing", [][]kvevents.Event{
			{inGroup(ten, 0, 0), ofKind(ten, 1, "chunked_local_attention")},
		}, nil},
		{"a kind that is not told claims nothing", [][]kvevents.Event{{ofKind(ten, 0, ""), ofKind(ten, 1, "")}}, nil},
		{"an unknown kind seen later takes all back", [][]kvevents.Event{
			{sliding(0, 33, ten, 3), inGroup(ten, 1, 0)}, {ofKind(next, 2, "new")},
		}, nil},
		{"after a clear the groups are found anew", [][]kvevents.Event{
			{sliding(0, 33, ten, 3), inGroup(ten, 1, 0)},
			{{Kind: kvevents.Cleared}, sliding(0, 33, two, 1), inGroup(two, 1, 0)},
		}, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := newPair()
			for _, s := range row.steps {
				b := &kvevents.Batch{Events: s}
				p.naive.apply(b)
				p.follow.apply(t, p.mirror, p.mirror.Apply(b))
				agree(t, p.naive, p.mirror, p.follow)
			}
			require.Equal(t, row.ends, ends(p.follow, 12))
		})
	}
}

// ends are the numbers of blocks at which a hit on the sequence 1, 2, … can end: a prompt of just that length hits whole.
func ends(held follower, blocks int) (out []int) {
	var ids []uint32
	for b := range blocks {
		ids = append(ids, idsOf(uint64(b+1), 16)...)
	}
	units := kvblock.AppendUnits(nil, kvblock.Namespace{Model: model}.Root(), ids, "")
	for n := 1; n <= blocks; n++ {
		if hit(held, units[:n], 1) == n {
			out = append(out, n)
		}
	}
	return out
}

// TestPlainUntilTheSecondGroup: one group alone is a plain model, whatever its kind.
func TestPlainUntilTheSecondGroup(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"", "full_attention", "sliding_window", "mamba", "chunked_local_attention"} {
		m := mirror.New(mirror.Config{Model: model})
		step(m, ofKind(stored(16, 0, 1, 2, 3), 0, kind))
		require.Equal(t, 3, m.Count(), kind)
		require.False(t, m.Stats().Ruled)
		step(m, ofKind(stored(16, 0, 1, 2, 3), 1, "full_attention"))
		require.Equal(t, kind == "full_attention" || kind == "mamba", m.Stats().Ruled, kind)
	}
}

// TestHybridTrim: copies of all groups share one pool.
func TestHybridTrim(t *testing.T) {
	t.Parallel()
	m := mirror.New(mirror.Config{Model: model})
	m.SetCapacity(6)
	two := stored(16, 0, 1, 2)
	step(m, inGroup(two, 0, 0), inGroup(two, 1, 0))
	require.Equal(t, 4, m.Stats().Copies)
	step(m, inGroup(stored(16, 2, 3, 4), 0, 0), inGroup(stored(16, 2, 3, 4), 1, 0))
	require.LessOrEqual(t, m.Stats().Copies, 6)
	require.EqualValues(t, 2, m.Stats().Trimmed)
	require.Equal(t, 3+3+1, m.Count(), "three units, each the end of hits, and the mark: the oldest went whole")
}

// TestGroupsBounded: a worker that names ever new groups does not grow the mirror.
func TestGroupsBounded(t *testing.T) {
	t.Parallel()
	m := mirror.New(mirror.Config{Model: model})
	for g := range 100 {
		step(m, inGroup(stored(16, 0, uint64(g+1)), g, 0))
	}
	require.Equal(t, 64, m.Stats().Groups)
	require.EqualValues(t, 36, m.Stats().Skipped)
}

// TestHybridFullOnly: blocks that only the first group ever had come and go as others do.
func TestHybridFullOnly(t *testing.T) {
	t.Parallel()
	m := mirror.New(mirror.Config{Model: model})
	full, slide := stored(16, 0, 1), stored(16, 0, 1)
	full.SpecKind = "full_attention"
	slide.SpecKind, slide.Group, slide.WindowTokens = "sliding_window", 1, 32
	step(m, full, slide)
	require.Equal(t, 3, m.Count(), "path, boundary and mark")
	for h := uint64(2); h < 40; h++ {
		ev := stored(16, 1, h)
		ev.SpecKind = "full_attention"
		step(m, ev)
		require.Equal(t, 4, m.Count(), "it is on the path")
		step(m, removed(h))
		require.Equal(t, 3, m.Count())
		step(m, ev)
		step(m, removed(h))
	}
	require.Equal(t, 1, m.Stats().Blocks)
	require.Equal(t, 2, m.Stats().Copies)
}
