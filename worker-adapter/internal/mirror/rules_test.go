package mirror_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// stored is a regular event of blocks of size tokens from hash first on, whose ids follow from the hashes.
func stored(size int, parent uint64, hashes ...uint64) kvevents.Event {
	ev := kvevents.Event{
		Kind: kvevents.Stored, Hashes: hashes, Parent: parent, HasParent: parent != 0, BlockTokens: size, Medium: "GPU",
	}
	for _, h := range hashes {
		ev.TokenIDs = append(ev.TokenIDs, idsOf(h, size)...)
	}
	return ev
}

func idsOf(h uint64, size int) []uint32 {
	ids := make([]uint32, size)
	for i := range ids {
		ids[i] = uint32(h)*1000 + uint32(i)
	}
	return ids
}

func removed(hashes ...uint64) kvevents.Event {
	return kvevents.Event{Kind: kvevents.Removed, Hashes: hashes, Medium: "GPU"}
}

func step(m *mirror.Mirror, events ...kvevents.Event) *mirror.Delta {
	return m.Apply(&kvevents.Batch{Events: events})
}

// with changes an event.
func with(ev kvevents.Event, change func(*kvevents.Event)) kvevents.Event {
	change(&ev)
	return ev
}

func cpu(ev *kvevents.Event) { ev.Medium = "CPU" }

func TestRules(t *testing.T) {
	t.Parallel()
	lora := func(ev *kvevents.Event) { ev.LoRA = "ad" }
	item := func(ev *kvevents.Event) {
		ev.Extras = [][]kvevents.Key{{{Kind: kvevents.KeyItem, Text: "img", OffsetTokens: 3}}}
	}
	rows := []struct {
		name  string
		steps [][]kvevents.Event
		units int
		check func(*testing.T, mirror.Stats)
	}{
		{name: "stored", steps: [][]kvevents.Event{{stored(16, 0, 1, 2)}}, units: 2},
		{name: "a block of 64 is four units", steps: [][]kvevents.Event{{stored(64, 0, 1, 2)}}, units: 8},
		{name: "a block of 24 is one unit", steps: [][]kvevents.Event{{stored(24, 0, 1, 2)}}, units: 2},
		{name: "two copies, one removed", steps: [][]kvevents.Event{
			{stored(16, 0, 1), stored(16, 0, 1)}, {removed(1)},
		}, units: 1},
		{name: "a third removal does no harm", steps: [][]kvevents.Event{
			{stored(16, 0, 1), stored(16, 0, 1)}, {removed(1), removed(1)}, {removed(1)}, {stored(16, 0, 1)},
		}, units: 1, check: func(t *testing.T, s mirror.Stats) { require.EqualValues(t, 1, s.UnknownRemovals) }},
		{name: "copies left as the worker says", steps: [][]kvevents.Event{
			{stored(16, 0, 1), stored(16, 0, 1), stored(16, 0, 1)},
			{with(removed(1), func(ev *kvevents.Event) { ev.Remaining = []uint32{0} })},
		}},
		{name: "fewer hashes than tokens: nothing is claimed", steps: [][]kvevents.Event{
			{with(stored(16, 0, 1, 2), func(ev *kvevents.Event) { ev.TokenIDs = make([]uint32, 64) })},
		}, check: func(t *testing.T, s mirror.Stats) { require.EqualValues(t, 1, s.Irregular) }},
		{name: "orphan", steps: [][]kvevents.Event{{stored(16, 9, 1, 2)}}, check: func(t *testing.T, s mirror.Stats) {
			require.Equal(t, 2, s.OrphanBlocks)
		}},
		{name: "orphan's parent comes", steps: [][]kvevents.Event{
			{stored(16, 9, 1, 2)}, {stored(16, 2, 3)}, {stored(16, 0, 9)},
		}, units: 4, check: func(t *testing.T, s mirror.Stats) { require.Zero(t, s.OrphanBlocks) }},
		{name: "orphan removed before its parent comes", steps: [][]kvevents.Event{
			{stored(16, 9, 1, 2)}, {removed(2)}, {stored(16, 0, 9)},
		}, units: 2},
		{name: "same content in two tiers", steps: [][]kvevents.Event{
			{stored(16, 0, 1), with(stored(16, 0, 1), cpu)},
		}, units: 2},
		{name: "offloaded block without ids", steps: [][]kvevents.Event{
			{stored(16, 0, 1)}, {{Kind: kvevents.Stored, Hashes: []uint64{1}, Medium: "CPU"}}, {removed(1)},
		}, units: 1},
		{name: "clear empties the engine's pool only", steps: [][]kvevents.Event{
			{stored(16, 0, 1, 2), with(stored(16, 0, 1), cpu)}, {{Kind: kvevents.Cleared}},
		}, units: 1},
		{name: "clear comes before the stores behind it", steps: [][]kvevents.Event{
			{stored(16, 0, 1, 2)}, {{Kind: kvevents.Cleared}, stored(16, 0, 3)},
		}, units: 1},
		{name: "LoRA and base are apart", steps: [][]kvevents.Event{
			{stored(16, 0, 1), with(with(stored(16, 0, 1), lora), func(ev *kvevents.Event) { ev.Hashes = []uint64{5} })},
		}, units: 2},
		{name: "image in a block of one unit", steps: [][]kvevents.Event{{with(stored(16, 0, 1), item)}}, units: 1},
		{name: "image in a block of two units", steps: [][]kvevents.Event{
			{with(stored(32, 0, 1), item), stored(32, 1, 2)},
		}, check: func(t *testing.T, s mirror.Stats) { require.EqualValues(t, 1, s.Unplaced) }},
		{name: "two engine hashes of one unit", steps: [][]kvevents.Event{
			{stored(16, 0, 1), with(stored(16, 0, 1), func(ev *kvevents.Event) { ev.Hashes = []uint64{7} })}, {removed(7)},
		}, units: 1},
		{name: "remote blocks are storage", steps: [][]kvevents.Event{
			{with(stored(16, 0, 1), func(ev *kvevents.Event) { ev.Remote = true })}, {{Kind: kvevents.Cleared}},
		}, units: 1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := mirror.New(mirror.Config{Model: model})
			for _, s := range row.steps {
				step(m, s...)
			}
			require.Equal(t, row.units, m.Count())
			if row.check != nil {
				row.check(t, m.Stats())
			}
		})
	}
}

// TestUnitsEqualQuery: what the mirror claims is what a request for the same prompt asks for.
func TestUnitsEqualQuery(t *testing.T) {
	t.Parallel()
	root := kvblock.Namespace{Model: model, LoRA: "ad"}.Root()
	ids := append(idsOf(1, 32), idsOf(2, 32)...)
	m := mirror.New(mirror.Config{Model: model})
	d := step(m, with(stored(32, 0, 1, 2), func(ev *kvevents.Event) {
		ev.LoRA = "ad"
		ev.Extras = [][]kvevents.Key{
			{{Kind: kvevents.KeyText, Text: "ad"}, {Kind: kvevents.KeyText, Text: "s"}}, {{Kind: kvevents.KeyText, Text: "ad"}},
		}
	}))
	require.Equal(t, kvblock.AppendUnits(nil, root, ids, "s"), d.Tiers[mirror.GPU].Added)
}

// TestNet: a unit that comes and goes within one step is in neither list.
func TestNet(t *testing.T) {
	t.Parallel()
	m := mirror.New(mirror.Config{Model: model})
	require.True(t, step(m, stored(16, 0, 1), removed(1)).Empty())
	step(m, stored(16, 0, 1))
	require.True(t, step(m, removed(1), stored(16, 0, 1)).Empty())
	require.Equal(t, 1, m.Count())
}

func TestReset(t *testing.T) {
	t.Parallel()
	m := mirror.New(mirror.Config{Model: model})
	require.False(t, step(m, stored(16, 0, 1)).Reset)
	require.True(t, step(m, stored(32, 0, 2)).Reset, "the block size changed")
	require.Equal(t, 2, m.Count())
	require.Equal(t, 32, m.Stats().BlockTokens)
	require.True(t, m.Clear().Reset)
	require.Zero(t, m.Count())
	step(m, with(stored(32, 0, 2), cpu))
	require.True(t, m.Reset().Reset)
	require.Zero(t, m.Count())
	require.Zero(t, m.Digest())
}

func TestDropLoRA(t *testing.T) {
	t.Parallel()
	lora := func(ev *kvevents.Event) { ev.LoRA = "ad" }
	m := mirror.New(mirror.Config{Model: model})
	step(m, stored(16, 0, 1), with(stored(16, 0, 5, 6), lora), with(stored(16, 99, 7), lora))
	d := m.DropLoRA("ad")
	require.Len(t, d.Tiers[mirror.GPU].Removed, 2)
	require.Zero(t, m.Stats().OrphanBlocks)
	require.True(t, m.DropLoRA("other").Empty())
	step(m, removed(5, 6))
	require.Zero(t, m.Stats().UnknownRemovals, "dropped blocks still have copies")
	require.Equal(t, 1, m.Count())
}

func TestCopiesLast(t *testing.T) {
	t.Parallel()
	m := mirror.New(mirror.Config{Model: model, Copies: mirror.CopiesLast})
	step(m, stored(16, 0, 1), stored(16, 0, 1))
	step(m, removed(1))
	require.Zero(t, m.Count())
}

// TestTrim: surplus copies go before blocks, and blocks go oldest first.
func TestTrim(t *testing.T) {
	t.Parallel()
	m := mirror.New(mirror.Config{Model: model})
	m.SetCapacity(3)
	step(m, stored(16, 0, 1, 2), stored(16, 0, 1))
	require.Equal(t, mirror.Stats{Blocks: 2, Copies: 3, Units: 2, BlockTokens: 16, Groups: 1}, m.Stats())
	step(m, stored(16, 0, 3))
	require.EqualValues(t, 1, m.Stats().Trimmed, "the second copy of block 1")
	require.Equal(t, 3, m.Count())
	d := step(m, stored(16, 0, 4))
	require.Len(t, d.Tiers[mirror.GPU].Removed, 1)
	require.Equal(t, 3, m.Count())
	step(m, removed(2))
	require.EqualValues(t, 1, m.Stats().UnknownRemovals, "block 2 was the oldest")
}

func TestOrphansBounded(t *testing.T) {
	t.Parallel()
	m := mirror.New(mirror.Config{Model: model, OrphanBlocks: 10})
	for i := uint64(100); i < 200; i++ {
		step(m, stored(16, i+1000, i))
	}
	require.Equal(t, 10, m.Stats().OrphanBlocks)
	require.EqualValues(t, 90, m.Stats().OrphansDropped)
	step(m, stored(16, 0, 1199))
	require.Equal(t, 2, m.Count(), "the newest orphan found its parent")
	step(m, stored(16, 0, 1100))
	require.Equal(t, 3, m.Count(), "the oldest gave up waiting")
}

// TestAdaptersNamesAreBounded: one name too many, and the mirror begins anew with it; the base model has its own place.
func TestAdaptersNamesAreBounded(t *testing.T) {
	t.Parallel()
	m := mirror.New(mirror.Config{Model: model, MaxNames: 2})
	of := func(name string) func(*kvevents.Event) { return func(ev *kvevents.Event) { ev.LoRA = name } }
	step(m, with(stored(16, 0, 1), of("a")), with(stored(16, 0, 2), of("b")), stored(16, 0, 3))
	require.Equal(t, 3, m.Count())
	require.False(t, step(m, with(stored(16, 2, 4), of("b"))).Reset, "known names are no more")
	require.Zero(t, m.Stats().Crowded)
	d := step(m, with(stored(16, 0, 5), of("c")))
	require.True(t, d.Reset)
	require.Equal(t, 1, m.Count(), "what is known begins with the new name")
	require.Equal(t, uint64(1), m.Stats().Crowded)
	step(m, removed(1), with(stored(16, 0, 6), of("a")))
	require.Equal(t, 2, m.Count())
	require.Equal(t, uint64(1), m.Stats().UnknownRemovals)
}
