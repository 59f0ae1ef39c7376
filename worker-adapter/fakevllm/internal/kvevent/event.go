// Package kvevent encodes the KV-cache events of a vLLM worker byte for byte as its msgspec encoder does.
//
// Two formats are on the road: maps with "type" first (vLLM 0.24 and later) and positional arrays with trailing nils
// (up to 0.23). Integers take their smallest form, floats eight bytes, byte strings the bin family.
package kvevent

// Kind is the class of an event.
type Kind uint8

// The three events of vLLM's block pool.
const (
	BlockStored Kind = iota
	BlockRemoved
	AllBlocksCleared
)

// Hash is a block's digest. On the wire it is whole, or its last eight bytes as a big-endian unsigned integer.
type Hash [32]byte

// Uint64 is the wire form under VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=1, the default.
func (h *Hash) Uint64() uint64 {
	var n uint64
	for _, b := range h[24:] {
		n = n<<8 | uint64(b)
	}
	return n
}

// Extra is one extra key of a block: a name (LoRA adapter, cache salt), or a multimodal item with its offset.
type Extra struct {
	Name   string
	Item   bool  // Name is a multimodal identifier and Offset belongs to it
	Offset int64 // tokens from the block's start to the item's, may be negative
}

// Event is one event; which fields are read depends on its Kind. Slices are not retained by the encoder.
type Event struct {
	Kind   Kind
	Hashes []Hash
	Parent *Hash
	Tokens []uint32
	// BlockSize is in tokens.
	BlockSize int
	// LoRAID is vLLM's internal number of the adapter, 0 for the base model (nil on the wire).
	LoRAID   int
	LoRAName string
	Medium   string
	// Extras holds one list per hash; nil means that the block has none. A nil Extras leaves the field out.
	Extras [][]Extra
	// Group is the KV cache group, SpecKind its kind ("full_attention"); Window its sliding window, 0 for none.
	Group    int
	SpecKind string
	Window   int
	// Session is the request's session id, "" for none (field left out; vLLM 0.32 and later, maps only).
	Session string
}

// Batch is what one engine step publishes. Timestamp is in seconds since the epoch.
type Batch struct {
	Timestamp float64
	Events    []Event
	Rank      int
}

// Options choose the wire format.
type Options struct {
	// Arrays selects the positional format of vLLM 0.23 and before.
	Arrays bool
	// BytesHashes sends whole digests instead of 64-bit integers.
	BytesHashes bool
}
