package mirror_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
)

// inGroup puts an event into a cache group; window 0 is full attention.
func inGroup(ev kvevents.Event, group, window int) kvevents.Event {
	ev.Group, ev.WindowTokens = group, window
	return ev
}

// sliding announces the last blocks of a range of blocks, as a sliding group does: the ids cover the whole range.
func sliding(group, window int, whole kvevents.Event, last int) kvevents.Event {
	ev := inGroup(whole, group, window)
	ev.Hashes = whole.Hashes[len(whole.Hashes)-last:]
	return ev
}

// TestHybrid: a boundary counts only where every group can serve a hit that ends there.
func TestHybrid(t *testing.T) {
	t.Parallel()
	ten := stored(16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	next := stored(16, 10, 11, 12)
	rows := []struct {
		name   string
		steps  [][]kvevents.Event
		blocks int
	}{
		{"full group alone", [][]kvevents.Event{{ten}}, 10},
		{"window of one block: each block that both have", [][]kvevents.Event{
			{sliding(0, 17, ten, 3), inGroup(ten, 1, 0)},
		}, 3},
		{"window of three blocks: the last has them behind it", [][]kvevents.Event{
			{sliding(0, 49, ten, 3), inGroup(ten, 1, 0)},
		}, 1},
		{"window of four blocks: three are too few", [][]kvevents.Event{
			{sliding(0, 65, ten, 3), inGroup(ten, 1, 0)},
		}, 0},
		{"a window may reach the start of the sequence", [][]kvevents.Event{
			{inGroup(stored(16, 0, 1, 2), 0, 1000), inGroup(stored(16, 0, 1, 2), 1, 0)},
		}, 2},
		{"the window goes on in the next step", [][]kvevents.Event{
			{sliding(0, 33, ten, 2), inGroup(ten, 1, 0)}, {sliding(0, 33, next, 2), inGroup(next, 1, 0)},
		}, 3},
		{"a second group seen later takes back what was claimed", [][]kvevents.Event{
			{inGroup(ten, 1, 0)}, {sliding(0, 33, next, 2), inGroup(next, 1, 0)},
		}, 1},
		{"a third group that has nothing", [][]kvevents.Event{
			{sliding(0, 33, ten, 2), inGroup(ten, 1, 0)}, {inGroup(stored(16, 0, 90), 2, 0)},
		}, 0},
		{"a block leaves one group", [][]kvevents.Event{
			{sliding(0, 33, ten, 3), inGroup(ten, 1, 0)}, {inGroup(removed(10), 0, 0)},
		}, 1},
		{"a block in the middle of a window leaves", [][]kvevents.Event{
			{sliding(0, 33, ten, 3), inGroup(ten, 1, 0)}, {inGroup(removed(9), 0, 0)},
		}, 0},
		{"the full group loses a boundary", [][]kvevents.Event{
			{sliding(0, 33, ten, 3), inGroup(ten, 1, 0)}, {inGroup(removed(10), 1, 0)},
		}, 1},
		{"sliding group only: nothing can be computed", [][]kvevents.Event{{sliding(0, 33, ten, 2)}}, 0},
		{"decode steps name no block in the sliding group", [][]kvevents.Event{
			{sliding(0, 33, ten, 2), inGroup(ten, 1, 0)},
			{
				inGroup(with(stored(16, 10, 11), func(ev *kvevents.Event) { ev.Hashes = nil }), 0, 33),
				inGroup(stored(16, 10, 11), 1, 0),
			},
		}, 1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := mirror.New(mirror.Config{Model: model})
			f := follower{}
			n := newNaive()
			for _, s := range row.steps {
				b := &kvevents.Batch{Events: s}
				n.apply(b)
				f.apply(t, m, m.Apply(b))
				agree(t, n, m, f)
			}
			require.Equal(t, row.blocks, m.Count())
		})
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
	require.Equal(t, 3, m.Count(), "the oldest block went with both copies")
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
