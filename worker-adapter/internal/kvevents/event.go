// Package kvevents decodes the KV-cache event batches that a worker publishes.
//
// A batch is a msgpack array [ts, events, rank]. Up to vLLM 0.23, and in SGLang, an event is an array with its class
// name first and its fields by position; from 0.24 on it is a map whose key "type" holds the class name. Hashes are
// unsigned or signed integers or byte strings. Fields and events that are not known are skipped, and an event of the
// wrong shape costs that event only, never its batch.
package kvevents

import "github.com/kvmesh/kvmesh/services/kit/kvblock"

// Kind is the class of an event.
type Kind uint8

const (
	// Stored is vLLM's BlockStored.
	Stored Kind = iota + 1
	// Removed is vLLM's BlockRemoved.
	Removed
	// Cleared is vLLM's AllBlocksCleared.
	Cleared
)

// NoRank is the rank of a batch that names none.
const NoRank = -1

// Batch is what one engine step published. Its slices, and those of its events, are reused by the next Decode into it.
type Batch struct {
	// Seconds is the worker's clock after the step, in seconds since 1970.
	Seconds float64
	// Rank is the data-parallel rank, or NoRank.
	Rank int
	// Events are in the order in which they happened.
	Events []Event
	// Skipped counts events that were unknown or oddly shaped.
	Skipped int

	hashes  []uint64
	ids     []uint32
	counts  []uint32
	extras  [][]Key
	keys    []Key
	strings interner
}

// Event is one change of the worker's cache. Which fields are set depends on Kind.
type Event struct {
	// Kind says which of vLLM's classes it is.
	Kind Kind
	// Hashes are the worker's own block hashes, opaque. Of a byte string the last 8 bytes count, which is also how
	// vLLM makes its integers.
	Hashes []uint64
	// Parent is the hash of the block before the first one; HasParent is false at the start of a sequence.
	Parent    uint64
	HasParent bool
	// TokenIDs are the ids of all blocks. Sliding-window groups (vLLM 0.20 and later) name fewer blocks than the ids
	// cover: see Regular.
	TokenIDs []uint32
	// OddIDs is true when the ids are no plain numbers, as SGLang's bigrams.
	OddIDs bool
	// BlockTokens is the block size.
	BlockTokens int
	// Medium is where the blocks lie, as the worker spells it ("GPU", "CPU", "cpu", "DISK", …); may be empty.
	Medium string
	// LoRA is the adapter's name, empty for the base model.
	LoRA string
	// Group is the cache group's index, 0 when the worker names none.
	Group int
	// SpecKind is the group's attention kind ("full_attention", "sliding_window", …), empty before vLLM 0.23.
	SpecKind string
	// WindowTokens is a sliding group's window, else 0.
	WindowTokens int
	// Remote is true for blocks that another process holds (locality REMOTE, vLLM 0.27).
	Remote bool
	// Extras has one list per hash, or is nil when no block has any.
	Extras [][]Key
	// Remaining is, per hash of a Removed, how many copies are left, when the worker says so; else nil.
	Remaining []uint32
}

// Regular is true when the ids cover exactly the named blocks: only then may hashes be computed from them.
func (e *Event) Regular() bool {
	return !e.OddIDs && e.BlockTokens > 0 && len(e.TokenIDs) == len(e.Hashes)*e.BlockTokens
}

// KeyKind is the form of an extra key.
type KeyKind uint8

const (
	// KeyText is a plain string: LoRA name, salt, or, before vLLM 0.19, a multimodal identifier.
	KeyText KeyKind = iota + 1
	// KeyItem is a multimodal identifier with the item's offset from the block's start.
	KeyItem
	// KeySalt is a salt tagged as such.
	KeySalt
	// KeyLoRA is a LoRA name tagged as such.
	KeyLoRA
	// KeyOdd is anything else, as the digest of prompt embeddings.
	KeyOdd
)

// Key is one extra key of a block.
type Key struct {
	Kind KeyKind
	// Text is the string, identifier, salt or name.
	Text string
	// OffsetTokens is a KeyItem's offset; negative when the item began in an earlier block.
	OffsetTokens int64
}

// Extra is what the keys of block i mean. ok is false when they cannot be told apart or placed: the block's content is
// then unknown to anyone but the worker. A plain string that is not the LoRA name is the salt, in the first block of a
// sequence and once only (vLLM puts it nowhere else).
func (e *Event) Extra(i int) (x kvblock.Extra, ok bool) {
	if i >= len(e.Extras) {
		return x, true
	}
	named := e.LoRA == ""
	for _, k := range e.Extras[i] {
		switch {
		case k.Kind == KeyLoRA, k.Kind == KeyText && !named && k.Text == e.LoRA:
			named = true
		case k.Kind == KeyItem:
			x.Items = append(x.Items, kvblock.Item{Key: k.Text, OffsetTokens: k.OffsetTokens})
		case k.Kind == KeySalt, k.Kind == KeyText && i == 0 && !e.HasParent && x.Salt == "":
			x.Salt = k.Text
		default:
			return kvblock.Extra{}, false
		}
	}
	return x, true
}
