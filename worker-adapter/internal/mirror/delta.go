package mirror

// Tier is where blocks lie.
type Tier uint8

const (
	// GPU is the engine's own block pool.
	GPU Tier = iota
	// CPU is host memory.
	CPU
	// Storage is anything farther away: disks, remote stores, other processes.
	Storage

	tierCount = 3
)

// tierOf places a medium as workers spell it: vLLM "GPU", "CPU", "STORAGE"; the Mooncake connector "cpu"; SGLang
// "CPU_PINNED", "DISK", "EXTERNAL". No medium is the engine's own pool (vLLM before 0.10.2).
func tierOf(medium string, remote bool) Tier {
	if remote {
		return Storage
	}
	switch medium {
	case "", "GPU", "gpu":
		return GPU
	case "CPU", "cpu", "CPU_PINNED", "cpu_pinned":
		return CPU
	}
	return Storage
}

// TierDelta is a tier's net change: a unit that came and went within the step is in neither list.
type TierDelta struct {
	Added   []uint64
	Removed []uint64
}

// Delta is what one step changed.
type Delta struct {
	// Reset is true when earlier knowledge of the stream is void: the cache was cleared or its block size changed. The
	// lists then hold the changes against a tier that was emptied; the whole truth is in Units.
	Reset bool
	// Tiers is indexed by Tier.
	Tiers [tierCount]TierDelta
}

// Empty is true when nothing changed.
func (d *Delta) Empty() bool {
	for i := range d.Tiers {
		if len(d.Tiers[i].Added)+len(d.Tiers[i].Removed) > 0 {
			return false
		}
	}
	return !d.Reset
}

// Stats counts what the mirror holds and what it had to leave out.
type Stats struct {
	// Blocks and Copies are those of all tiers; Units are what is claimed.
	Blocks, Copies, Units int
	// OrphanBlocks wait for their parent now; OrphansDropped gave up waiting.
	OrphanBlocks   int
	OrphansDropped uint64
	// Irregular counts stores whose ids do not cover their hashes.
	Irregular uint64
	// Unplaced counts blocks whose extras cannot be placed on units.
	Unplaced uint64
	// UnknownRemovals counts removals of blocks that the mirror did not have.
	UnknownRemovals uint64
	// Trimmed counts copies dropped because the worker cannot hold that many.
	Trimmed uint64
	// LoRADrops counts adapters whose name was pointed elsewhere.
	LoRADrops uint64
	// Crowded counts how often everything was forgotten because there were too many adapters' names.
	Crowded uint64
	// Skipped counts events that could not be read.
	Skipped uint64
	// BlockTokens is the block size of the first group of the engine's pool, 0 while unknown.
	BlockTokens int
	// Groups is the number of cache groups seen; more than one means a hybrid model.
	Groups int
	// Ruled is true for a hybrid model whose hits can be told; otherwise nothing of it is claimed.
	Ruled bool
}

// Stats is the state of the counters now.
func (m *Mirror) Stats() Stats {
	st := m.stats
	for _, s := range m.tiers {
		st.Blocks += s.index.used
		st.Copies += s.copies
		st.Units += s.units.held
	}
	st.OrphanBlocks = m.orphans.blocks
	st.Groups, st.Ruled = len(m.tiers[GPU].groups), m.tiers[GPU].ruled
	if st.Groups > 0 {
		st.BlockTokens = m.tiers[GPU].groups[0].blockTokens
	}
	return st
}

// Count is the number of units held over all tiers: a unit in two tiers counts twice.
func (m *Mirror) Count() int {
	n := 0
	for _, s := range m.tiers {
		n += s.units.held
	}
	return n
}

// Blocks is the number of blocks that a tier holds, claimed or not.
func (m *Mirror) Blocks(t Tier) int { return m.tiers[t].index.used }

// Digest is the order-free digest over all units of all tiers, as kvblock.Digest makes it.
func (m *Mirror) Digest() uint64 {
	var sum uint64
	for _, s := range m.tiers {
		sum += s.units.digest.Value()
	}
	return sum
}

// Units appends the units that a tier holds to dst, in no order.
func (m *Mirror) Units(t Tier, dst []uint64) []uint64 { return m.tiers[t].units.all(dst) }
