package mirror_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const model = "tiny"

// naive is the plain restatement of the rules: whole prefixes are kept and hashed from the start each time, and the
// held set is derived anew after each step. It knows the engine's own tier only.
type naive struct {
	blocks map[uint64]*naiveBlock
	groups map[int]naiveGroup
	// waiting holds stores whose parent was not known, whole.
	waiting []kvevents.Event
}

// naiveGroup is a group's kind and, where it slides, the blocks in a row that it needs.
type naiveGroup struct {
	kind string
	need int
}

type naiveBlock struct {
	refs   map[int]int
	chain  []uint64 // hashes from the start of the sequence, itself last
	prefix []uint32 // ids from the start of the sequence; nil while unknown
	extras map[int]kvblock.Extra
	lora   string
	size   int
}

func newNaive() *naive {
	return &naive{blocks: map[uint64]*naiveBlock{}, groups: map[int]naiveGroup{}}
}

func (n *naive) apply(b *kvevents.Batch) {
	for i := range b.Events {
		ev := &b.Events[i]
		switch ev.Kind {
		case kvevents.Stored:
			n.stored(ev)
		case kvevents.Removed:
			n.removed(ev)
		case kvevents.Cleared:
			n.blocks, n.groups = map[uint64]*naiveBlock{}, map[int]naiveGroup{}
		}
	}
}

func (n *naive) stored(ev *kvevents.Event) {
	need := 1
	for ev.WindowTokens > 0 && need*ev.BlockTokens < ev.WindowTokens-1 {
		need++
	}
	if _, seen := n.groups[ev.Group]; !seen {
		n.groups[ev.Group] = naiveGroup{kind: ev.SpecKind, need: need}
	}
	prev := &naiveBlock{prefix: []uint32{}, extras: map[int]kvblock.Extra{}}
	if ev.HasParent {
		prev = n.blocks[ev.Parent]
	}
	for i, h := range ev.Hashes {
		b := n.blocks[h]
		if b == nil {
			b = &naiveBlock{refs: map[int]int{}, lora: ev.LoRA, size: ev.BlockTokens}
			n.blocks[h] = b
		}
		b.refs[ev.Group]++
		if ev.Regular() && b.prefix == nil && prev != nil && prev.prefix != nil {
			b.follow(prev, ev, i)
			n.resolve(h, b)
		}
		prev = b
	}
	if ev.Regular() && len(ev.Hashes) > 0 && prev.prefix == nil {
		n.waiting = append(n.waiting, *ev)
	}
}

// follow makes b block i of ev behind prev.
func (b *naiveBlock) follow(prev *naiveBlock, ev *kvevents.Event, i int) {
	x, placed := ev.Extra(i)
	if !placed {
		return
	}
	b.prefix = append(slices.Clone(prev.prefix), ev.TokenIDs[i*ev.BlockTokens:(i+1)*ev.BlockTokens]...)
	b.extras = maps.Clone(prev.extras)
	b.extras[len(prev.prefix)] = x
	b.chain = append(slices.Clone(prev.chain), ev.Hashes[i])
}

// resolve gives content to the stores that waited for a block, also where some of their own blocks have gone since.
func (n *naive) resolve(hash uint64, prev *naiveBlock) {
	for i := 0; i < len(n.waiting); i++ {
		ev := n.waiting[i]
		if ev.Parent != hash {
			continue
		}
		n.waiting = slices.Delete(n.waiting, i, i+1)
		i = -1
		at := prev
		for j, h := range ev.Hashes {
			b := n.blocks[h]
			if b == nil || b.prefix != nil {
				b = &naiveBlock{lora: ev.LoRA, size: ev.BlockTokens}
			}
			b.follow(at, &ev, j)
			n.resolve(h, b)
			at = b
		}
	}
}

func (n *naive) removed(ev *kvevents.Event) {
	for _, h := range ev.Hashes {
		b := n.blocks[h]
		if b == nil || b.refs[ev.Group] == 0 {
			continue
		}
		b.refs[ev.Group]--
		left := 0
		for _, r := range b.refs {
			left += r
		}
		if left == 0 {
			delete(n.blocks, h)
		}
	}
}

// held is the set of units: those of all blocks, or, of a hybrid model, the path in its full groups, the boundaries at
// which hits can end, and the mark that says so.
func (n *naive) held() []uint64 {
	set := map[uint64]bool{}
	if len(n.groups) > 1 {
		if !n.ruled() {
			return nil
		}
		set[kvblock.HybridMark] = true
	}
	for _, b := range n.blocks {
		if b.prefix == nil || !n.onPath(b) {
			continue
		}
		units := b.units()
		for _, u := range units {
			set[u] = true
		}
		if len(n.groups) > 1 && n.ends(b) {
			set[kvblock.Boundary(units[len(units)-1])] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func (n *naive) ruled() bool {
	full := 0
	for _, g := range n.groups {
		switch g.kind {
		case "full_attention":
			full++
		case "sliding_window", "mamba":
		default:
			return false
		}
	}
	return full > 0
}

func (n *naive) onPath(b *naiveBlock) bool {
	for id, g := range n.groups {
		if (g.kind == "full_attention" || len(n.groups) == 1) && b.refs[id] == 0 {
			return false
		}
	}
	return true
}

func (n *naive) ends(b *naiveBlock) bool {
	for id, g := range n.groups {
		for i := max(0, len(b.chain)-g.need); i < len(b.chain); i++ {
			if x := n.blocks[b.chain[i]]; g.kind == "sliding_window" && (x == nil || x.refs[id] == 0) {
				return false
			}
		}
		if b.refs[id] == 0 {
			return false
		}
	}
	return true
}

// hit is what a scheduler makes of the units: the longest prefix, or the deepest boundary on it.
func hit(held map[uint64]bool, units []uint64, perBlock int) int {
	n := 0
	for n < len(units) && held[units[n]] {
		n++
	}
	n -= n % perBlock
	for held[kvblock.HybridMark] && n > 0 && !held[kvblock.Boundary(units[n-1])] {
		n -= perBlock
	}
	return n
}

// units are the block's own: those of its prefix beyond its parent's.
func (b *naiveBlock) units() []uint64 {
	root := kvblock.Namespace{Model: model, LoRA: b.lora}.Root()
	if b.size%kvblock.UnitTokens != 0 {
		all := kvblock.AppendBlocks(nil, root, b.prefix, b.size, b.extras[0].Salt)
		return all[len(all)-1:]
	}
	all := kvblock.AppendUnitsExtra(nil, root, b.prefix, func(unit int) []byte {
		return kvblock.AppendExtra(nil, b.extras[unit*kvblock.UnitTokens])
	})
	return all[len(all)-b.size/kvblock.UnitTokens:]
}

// follower applies deltas as a consumer of the stream would.
type follower map[uint64]bool

func (f follower) apply(t *testing.T, m *mirror.Mirror, d *mirror.Delta) {
	t.Helper()
	if d.Reset {
		clear(f)
		for _, u := range m.Units(mirror.GPU, nil) {
			f[u] = true
		}
		return
	}
	for _, u := range d.Tiers[mirror.GPU].Removed {
		require.True(t, f[u], "removed a unit that was not held")
		delete(f, u)
	}
	for _, u := range d.Tiers[mirror.GPU].Added {
		require.False(t, f[u], "added a unit that was held")
		f[u] = true
	}
}

// agree checks the mirror, the deltas' follower, and the digest against the naive set.
func agree(t *testing.T, n *naive, m *mirror.Mirror, f follower) {
	t.Helper()
	want := n.held()
	got := m.Units(mirror.GPU, nil)
	slices.Sort(got)
	require.Equal(t, want, slices.Clip(append([]uint64(nil), got...)))
	require.Equal(t, want, slices.Sorted(maps.Keys(f)))
	require.Equal(t, kvblock.DigestOf(want), m.Digest())
	require.Equal(t, len(want), m.Count())
}
