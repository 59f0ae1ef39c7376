// Package kvblock computes the block hashes on which every part of kvmesh must agree bit for bit.
//
// A prompt is cut into units of 16 tokens. Each full unit has one hash, chained to the unit before it:
//
//	h[-1] = root
//	h[i]  = xxh3-64(seed = root, le64(h[i-1]) ++ le32(ids of unit i)… ++ extras of unit i)
//
// The root stands for the namespace (model and LoRA name), so that equal tokens under two models never meet. Extras are
// what makes equal tokens different content: the request's cache salt in unit 0 and multimodal items in the units they
// touch. Each extra is a tag, a length and a value, and a chain's units all have the same number of ids: no two
// different inputs share a preimage.
//
// Hashes are ours. vLLM's own hashes (four algorithms, a seed, truncation) are never reproduced, only mapped to these
// by the adapter that sees both.
package kvblock

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// UnitTokens is the number of tokens in a unit. vLLM's default block is one unit; usual larger blocks are multiples.
const UnitTokens = 16

// rootSeed separates namespace roots from all other uses of xxh3 and names the version of the scheme ("kvmesh01").
const rootSeed = 0x6b766d6573683031

// prevBytes is the size of the previous hash at the start of a preimage.
const prevBytes = 8

// idBytes is the size of one token id in a preimage.
const idBytes = 4

// Namespace is what a chain belongs to. LoRA is the adapter's name as requests use it, empty for the base model; its
// path is unknown to vLLM's events and therefore not part of it.
type Namespace struct {
	// Model is the base model's id as the worker lists it.
	Model string
	// LoRA is the adapter's name, empty for the base model.
	LoRA string
}

// Root is the seed of the namespace's chains and stands for the hash before the first unit.
func (n Namespace) Root() uint64 {
	b := make([]byte, 0, 2*binary.MaxVarintLen64+len(n.Model)+len(n.LoRA))
	b = binary.AppendUvarint(b, uint64(len(n.Model)))
	b = append(b, n.Model...)
	b = binary.AppendUvarint(b, uint64(len(n.LoRA)))
	b = append(b, n.LoRA...)
	return xxh3.HashSeed(b, rootSeed)
}

// BlockRoot is the root for chains whose blocks have blockTokens tokens: root itself for units of 16, else a root of
// its own, so that chains of different block sizes cannot meet.
func BlockRoot(root uint64, blockTokens int) uint64 {
	if blockTokens == UnitTokens {
		return root
	}
	var b [prevBytes]byte
	binary.LittleEndian.PutUint64(b[:], uint64(blockTokens))
	return xxh3.HashSeed(b[:], root)
}

// Next is one step of a chain: the hash of the unit with these ids after the unit hashed prev. For the first unit prev
// is root. extra is nil or what SaltExtra, MMExtra or AppendExtra returned.
//
// ids has UnitTokens entries; for another block size root is BlockRoot's and ids is one whole block.
func Next(root, prev uint64, ids []uint32, extra []byte) uint64 {
	var buf [prevBytes + UnitTokens*idBytes]byte
	if len(ids) == UnitTokens && len(extra) == 0 {
		binary.LittleEndian.PutUint64(buf[:], prev)
		putIDs(buf[prevBytes:], ids)
		return xxh3.HashSeed(buf[:], root)
	}
	return nextLong(root, prev, ids, extra)
}

// nextLong is Next for preimages that do not fit the fixed buffer.
func nextLong(root, prev uint64, ids []uint32, extra []byte) uint64 {
	idsEnd := prevBytes + len(ids)*idBytes
	b := make([]byte, idsEnd, idsEnd+len(extra))
	binary.LittleEndian.PutUint64(b, prev)
	putIDs(b[prevBytes:], ids)
	return xxh3.HashSeed(append(b, extra...), root)
}

// AppendUnits appends the hashes of a prompt's full units to dst and returns it. salt is the request's cache_salt,
// empty for none. A last unit with fewer than UnitTokens ids has no hash.
func AppendUnits(dst []uint64, root uint64, ids []uint32, salt string) []uint64 {
	return appendChain(dst, root, ids, chain{tokens: UnitTokens, first: SaltExtra(salt)})
}

// AppendRest goes on with a chain of AppendUnits: dst holds all its hashes so far and nothing else, ids begin right after
// the tokens of the last one. An empty dst begins the chain.
func AppendRest(dst []uint64, root uint64, ids []uint32, salt string) []uint64 {
	if len(dst) == 0 {
		return AppendUnits(dst, root, ids, salt)
	}
	if len(ids) < UnitTokens {
		return dst
	}
	return appendAfter(slices.Grow(dst, len(ids)/UnitTokens), root, ids, UnitTokens)
}

// AppendBlocks is AppendUnits for a worker whose block size is no multiple of UnitTokens: one hash per full block of
// blockTokens ids. For 16 it equals AppendUnits. A blockTokens below 1 appends nothing.
func AppendBlocks(dst []uint64, root uint64, ids []uint32, blockTokens int, salt string) []uint64 {
	if blockTokens < 1 {
		return dst
	}
	c := chain{tokens: blockTokens, first: SaltExtra(salt)}
	return appendChain(dst, BlockRoot(root, blockTokens), ids, c)
}

// AppendUnitsExtra is AppendUnits with extras of any unit: extraOf is called once per full unit, in order, and returns
// its extra bytes or nil. The bytes are read before the next call, so one buffer may be reused.
func AppendUnitsExtra(dst []uint64, root uint64, ids []uint32, extraOf func(unit int) []byte) []uint64 {
	prev := root
	for unit := 0; (unit+1)*UnitTokens <= len(ids); unit++ {
		prev = Next(root, prev, ids[unit*UnitTokens:(unit+1)*UnitTokens], extraOf(unit))
		dst = append(dst, prev)
	}
	return dst
}

// chain says how a prompt is cut and what its first block has beside its ids.
type chain struct {
	tokens int
	first  []byte
}

// appendChain begins a chain and walks whole blocks.
func appendChain(dst []uint64, root uint64, ids []uint32, c chain) []uint64 {
	blocks := len(ids) / c.tokens
	if blocks == 0 {
		return dst
	}
	dst = append(slices.Grow(dst, blocks), Next(root, root, ids[:c.tokens], c.first))
	return appendAfter(dst, root, ids[c.tokens:], c.tokens)
}

// appendAfter walks the whole blocks that follow the last one in dst. One buffer holds the preimage: the hash of a block
// is written over the front of the next one's, and the ids are copied in as they lie in memory.
func appendAfter(dst []uint64, root uint64, ids []uint32, tokens int) []uint64 {
	var unit [prevBytes + UnitTokens*idBytes]byte
	buf := unit[:]
	if tokens != UnitTokens {
		buf = make([]byte, prevBytes+tokens*idBytes)
	}
	prev := dst[len(dst)-1]
	for i := 0; i+tokens <= len(ids); i += tokens {
		binary.LittleEndian.PutUint64(buf, prev)
		putIDs(buf[prevBytes:], ids[i:i+tokens])
		prev = xxh3.HashSeed(buf, root)
		dst = append(dst, prev)
	}
	return dst
}

// littleEndian is decided by the compiler: the branch that is not taken costs nothing.
func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

// putIDs writes ids as little-endian 32-bit numbers. On little-endian machines that is how they lie in memory.
func putIDs(dst []byte, ids []uint32) {
	if !littleEndian() || len(ids) == 0 {
		putIDsPortable(dst, ids)
		return
	}
	copy(dst, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(ids))), len(ids)*idBytes))
}

// putIDsPortable is putIDs for any byte order.
func putIDsPortable(dst []byte, ids []uint32) {
	for i, id := range ids {
		binary.LittleEndian.PutUint32(dst[i*idBytes:], id)
	}
}
