package index

import (
	"sync/atomic"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

// Meta is a holder id's stream number, tier and state in one atomic word.
const (
	metaDead     = ^uint32(0)
	metaHidden   = uint32(1) << 31 // of a snapshot that is still being loaded; dead has the bit too
	metaTierBits = 2
)

func liveMeta(stream int, tier Tier) uint32 { return uint32(stream)<<metaTierBits | uint32(tier) }

func metaStream(m uint32) int { return int(m &^ metaHidden >> metaTierBits) }

func metaTier(m uint32) Tier { return Tier(m & (1<<metaTierBits - 1)) }

// generation is one life of a holder: a stream's tier between two clears.
type generation struct {
	id     uint16
	units  atomic.Int64
	digest atomic.Uint64
	lost   atomic.Uint64 // units that eviction or a refusal took from it
}

func (g *generation) added(units int64, d kvblock.Digest) {
	g.units.Add(units)
	g.digest.Add(d.Value())
}

func (g *generation) removed(units int64, d kvblock.Digest) {
	g.units.Add(-units)
	g.digest.Add(-d.Value())
}

// idAllocator hands out holder ids; the index's lock guards it. A dead id is free after a sweep that began later.
type idAllocator struct {
	used int
	free []uint16
	dead []uint16
}

// newGeneration returns a generation with a fresh id in this state, or nil when all ids are in use.
func (x *Index) newGeneration(meta uint32) *generation {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := &generation{}
	switch n := len(x.ids.free); {
	case n > 0:
		g.id = x.ids.free[n-1]
		x.ids.free = x.ids.free[:n-1]
		x.reused.Add(1)
	case x.ids.used < maxIDs:
		g.id = uint16(x.ids.used)
		x.ids.used++
	default:
		return nil
	}
	x.gens[g.id].Store(g)
	x.meta[g.id].Store(meta)
	return g
}

// kill ends a generation: walks see it no more. Its entries stay in the table until the next sweep.
func (x *Index) kill(g *generation) {
	if g == nil {
		return
	}
	x.meta[g.id].Store(metaDead)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ids.dead = append(x.ids.dead, g.id)
}

// lose books a unit that one of its holders lost to a bound.
func (x *Index) lose(id uint16, key uint64) {
	if x.meta[id].Load() == metaDead {
		return
	}
	g := x.gens[id].Load()
	var d kvblock.Digest
	d.Add(key)
	g.removed(1, d)
	g.lost.Add(1)
}
