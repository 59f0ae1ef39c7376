package kvblock

import "encoding/binary"

// Tags of extras. A tag's meaning never changes; new kinds get new tags.
const (
	tagSalt = 1
	tagItem = 2
)

// Item is a multimodal item (image, audio) that touches a unit.
type Item struct {
	// Key identifies the content, as the worker's mm_identifier.
	Key string
	// OffsetTokens is the item's first token minus the unit's first token; negative when it began in an earlier unit.
	OffsetTokens int64
}

// Extra is what makes equal tokens in a unit different content.
type Extra struct {
	// Salt is the request's cache_salt. It belongs into unit 0 only: the chain carries it on.
	Salt string
	// Items touch the unit, in prompt order.
	Items []Item
}

// AppendExtra appends the canonical bytes of x to dst: the salt first, then the items in order. Nothing is appended for
// the zero Extra.
func AppendExtra(dst []byte, x Extra) []byte {
	if x.Salt != "" {
		dst = appendTagged(dst, tagSalt, x.Salt)
	}
	for _, it := range x.Items {
		dst = appendTagged(dst, tagItem, it.Key)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(it.OffsetTokens))
	}
	return dst
}

// SaltExtra is the extra of unit 0 for a cache_salt; nil for the empty one, which vLLM does not tell from none.
func SaltExtra(salt string) []byte {
	if salt == "" {
		return nil
	}
	return AppendExtra(nil, Extra{Salt: salt})
}

// MMExtra is the extra of a unit that one multimodal item touches; see Item for the offset.
func MMExtra(key string, offsetTokens int64) []byte {
	return AppendExtra(nil, Extra{Items: []Item{{Key: key, OffsetTokens: offsetTokens}}})
}

// appendTagged writes tag, length and value. The length keeps two values from running into each other.
func appendTagged(dst []byte, tag byte, value string) []byte {
	dst = append(dst, tag)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}
