package kvevent

import (
	"encoding/binary"
	"math"
)

const nilByte = 0xc0

// Append encodes the batch behind dst: an array of timestamp, events and data-parallel rank.
func Append(dst []byte, b *Batch, o Options) []byte {
	dst = append(dst, 0x93, 0xcb)
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(b.Timestamp))
	dst = appendArrayLen(dst, len(b.Events))
	for i := range b.Events {
		if o.Arrays {
			dst = appendArrayEvent(dst, &b.Events[i], o)
			continue
		}
		dst = appendMapEvent(dst, &b.Events[i], o)
	}
	return appendInt(dst, int64(b.Rank))
}

// appendMapEvent writes fields without a default always and the others only where they are set, as msgspec's
// omit_defaults does. extra_keys is absent when a step stored no block of the group.
func appendMapEvent(dst []byte, e *Event, o Options) []byte {
	switch e.Kind {
	case AllBlocksCleared:
		return appendString(appendString(append(dst, 0x81), "type"), "AllBlocksCleared")
	case BlockRemoved:
		dst = appendMapLen(dst, 4)
		dst = appendString(appendString(dst, "type"), "BlockRemoved")
		dst = appendHashes(appendString(dst, "block_hashes"), e.Hashes, o)
		dst = appendOptString(appendString(dst, "medium"), e.Medium)
		return appendInt(appendString(dst, "group_idx"), int64(e.Group))
	}
	fields := 10
	for _, present := range [...]bool{e.Extras != nil, e.Window > 0, e.Session != ""} {
		if present {
			fields++
		}
	}
	dst = appendMapLen(dst, fields)
	dst = appendString(appendString(dst, "type"), "BlockStored")
	dst = appendHashes(appendString(dst, "block_hashes"), e.Hashes, o)
	dst = appendParent(appendString(dst, "parent_block_hash"), e.Parent, o)
	dst = appendTokens(appendString(dst, "token_ids"), e.Tokens)
	dst = appendInt(appendString(dst, "block_size"), int64(e.BlockSize))
	dst = appendOptInt(appendString(dst, "lora_id"), e.LoRAID)
	dst = appendOptString(appendString(dst, "medium"), e.Medium)
	dst = appendOptString(appendString(dst, "lora_name"), e.LoRAName)
	if e.Extras != nil {
		dst = appendExtras(appendString(dst, "extra_keys"), e.Extras)
	}
	dst = appendInt(appendString(dst, "group_idx"), int64(e.Group))
	dst = appendString(appendString(dst, "kv_cache_spec_kind"), e.SpecKind)
	if e.Window > 0 {
		dst = appendInt(appendString(dst, "kv_cache_spec_sliding_window"), int64(e.Window))
	}
	if e.Session != "" {
		dst = appendString(appendString(dst, "session_id"), e.Session)
	}
	return dst
}

// appendArrayEvent writes every field of vLLM 0.23's structs, nil where unset: 12, 4 and 1 elements.
func appendArrayEvent(dst []byte, e *Event, o Options) []byte {
	switch e.Kind {
	case AllBlocksCleared:
		return appendString(append(dst, 0x91), "AllBlocksCleared")
	case BlockRemoved:
		dst = appendHashes(appendString(append(dst, 0x94), "BlockRemoved"), e.Hashes, o)
		return appendInt(appendOptString(dst, e.Medium), int64(e.Group))
	}
	dst = appendHashes(appendString(append(dst, 0x9c), "BlockStored"), e.Hashes, o)
	dst = appendTokens(appendParent(dst, e.Parent, o), e.Tokens)
	dst = appendOptInt(appendInt(dst, int64(e.BlockSize)), e.LoRAID)
	dst = appendOptString(appendOptString(dst, e.Medium), e.LoRAName)
	if e.Extras != nil {
		dst = appendExtras(dst, e.Extras)
	} else {
		dst = append(dst, nilByte)
	}
	dst = appendInt(dst, int64(e.Group))
	return appendOptInt(appendOptString(dst, e.SpecKind), e.Window)
}

// appendHashes writes the list of a block event's hashes, in either form.
func appendHashes(dst []byte, hashes []Hash, o Options) []byte {
	dst = appendArrayLen(dst, len(hashes))
	for i := range hashes {
		dst = appendHash(dst, &hashes[i], o)
	}
	return dst
}

// appendHash writes one digest: 32 bytes of the bin family, or the integer of its last eight.
func appendHash(dst []byte, h *Hash, o Options) []byte {
	if o.BytesHashes {
		return append(append(dst, 0xc4, byte(len(h))), h[:]...)
	}
	return appendUint(dst, h.Uint64())
}

// appendParent writes the hash before the first block; nil where a sequence begins.
func appendParent(dst []byte, h *Hash, o Options) []byte {
	if h == nil {
		return append(dst, nilByte)
	}
	return appendHash(dst, h, o)
}

// appendTokens writes the token ids of all blocks of an event.
func appendTokens(dst []byte, ids []uint32) []byte {
	dst = appendArrayLen(dst, len(ids))
	for _, id := range ids {
		dst = appendUint(dst, uint64(id))
	}
	return dst
}

// appendExtras writes one list per block, nil where it has no keys. A multimodal item is a pair of identifier and
// offset, which counts tokens from the block's start and is negative where the item began before it.
func appendExtras(dst []byte, extras [][]Extra) []byte {
	dst = appendArrayLen(dst, len(extras))
	for _, keys := range extras {
		if len(keys) == 0 {
			dst = append(dst, nilByte)
			continue
		}
		dst = appendArrayLen(dst, len(keys))
		for _, k := range keys {
			if k.Item {
				dst = append(dst, 0x92)
			}
			dst = appendString(dst, k.Name)
			if k.Item {
				dst = appendInt(dst, k.Offset)
			}
		}
	}
	return dst
}
