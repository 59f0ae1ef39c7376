package kvevents

import (
	"encoding/binary"
	"slices"
)

// hashList reads a list of hashes.
func (d *decoder) hashList() ([]uint64, error) {
	n, err := d.array()
	if err != nil {
		return nil, err
	}
	start := len(d.batch.hashes)
	if start+n > maxItems {
		return nil, errTooMany
	}
	out := slices.Grow(d.batch.hashes, n)
	for range n {
		h, err := d.hash()
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	d.batch.hashes = out
	return out[start:len(out):len(out)], nil
}

// tokenList reads the ids. A list that holds anything but token ids is passed over and marked.
func (d *decoder) tokenList(ev *Event) error {
	begin := d.pos
	n, err := d.array()
	if err != nil {
		return err
	}
	start := len(d.batch.ids)
	out := slices.Grow(d.batch.ids, n)[:start+n]
	if d.ids(out[start:]) {
		d.batch.ids = out
		ev.TokenIDs = out[start:len(out):len(out)]
		return nil
	}
	d.pos, ev.OddIDs = begin, true
	return d.skip()
}

// ids fills dst. It is the hot loop: nearly every byte of a batch passes through it. Of a large vocabulary 16-bit and
// 32-bit ids come in no order that a branch predictor could learn, so both are read by the same instructions: eight
// bytes at once, shifted and cut by amounts that follow from the first byte. Ids of 8 bits and less (line ends) have branches of
// their own. The rest goes the slow way.
func (d *decoder) ids(dst []uint32) bool {
	buf, p := d.buf, d.pos
	for i := range dst {
		if p+8 > len(buf) {
			return d.idsSlow(dst[i:], p)
		}
		v := binary.BigEndian.Uint64(buf[p : p+8])
		c := v >> 56
		if wide := c - cUint16; wide < 2 {
			dst[i] = uint32(v >> (40 - 16*wide) & (1<<(16+16*wide) - 1))
			p += int(3 + 2*wide)
			continue
		}
		if c == cUint8 {
			dst[i] = uint32(v >> 48 & 0xff)
			p += 2
			continue
		}
		if c >= 0x80 {
			return d.idsSlow(dst[i:], p)
		}
		dst[i] = uint32(c)
		p++
	}
	d.pos = p
	return true
}

// idsSlow fills dst from p on with integers of any form that fit 32 bits.
func (d *decoder) idsSlow(dst []uint32, p int) bool {
	d.pos = p
	for i := range dst {
		v, neg, err := d.integer()
		if err != nil || neg || v > 1<<32-1 {
			return false
		}
		dst[i] = uint32(v)
	}
	return true
}

// remaining reads the copies left per hash.
func (d *decoder) remaining() ([]uint32, error) {
	n, err := d.array()
	if err != nil {
		return nil, err
	}
	start := len(d.batch.counts)
	if start+n > maxItems {
		return nil, errTooMany
	}
	for range n {
		v, err := d.small(1<<32 - 1)
		if err != nil {
			return nil, err
		}
		d.batch.counts = append(d.batch.counts, uint32(v))
	}
	return d.batch.counts[start:len(d.batch.counts):len(d.batch.counts)], nil
}

// extras reads the extra keys of all blocks; nil when no block has any.
func (d *decoder) extras() ([][]Key, error) {
	n, err := d.array()
	if err != nil {
		return nil, err
	}
	start := len(d.batch.extras)
	if start+n > maxItems {
		return nil, errTooMany
	}
	some := false
	for range n {
		if d.isNil() {
			d.batch.extras = append(d.batch.extras, nil)
			continue
		}
		keys, err := d.blockKeys()
		if err != nil {
			return nil, err
		}
		some = some || len(keys) > 0
		d.batch.extras = append(d.batch.extras, keys)
	}
	if !some {
		d.batch.extras = d.batch.extras[:start]
		return nil, nil
	}
	return d.batch.extras[start:len(d.batch.extras):len(d.batch.extras)], nil
}

// blockKeys reads the extra keys of one block.
func (d *decoder) blockKeys() ([]Key, error) {
	n, err := d.array()
	if err != nil {
		return nil, err
	}
	start := len(d.batch.keys)
	if start+n > maxItems {
		return nil, errTooMany
	}
	for range n {
		k, err := d.key()
		if err != nil {
			return nil, err
		}
		d.batch.keys = append(d.batch.keys, k)
	}
	return d.batch.keys[start:len(d.batch.keys):len(d.batch.keys)], nil
}

// key reads one extra key: a string, or an array that is an item (id, offset) or tagged ("mm", id, offset),
// ("cache_salt", salt), ("lora", name, path).
func (d *decoder) key() (Key, error) {
	begin := d.pos
	if b, str, err := d.text(); err == nil {
		if !str {
			return Key{Kind: KeyOdd}, nil
		}
		return Key{Kind: KeyText, Text: string(b)}, nil
	}
	if k, ok := d.tupleKey(); ok {
		return k, nil
	}
	d.pos = begin
	return Key{Kind: KeyOdd}, d.skip()
}

// tupleKey reads the array forms of a key; false for any other shape.
func (d *decoder) tupleKey() (Key, bool) {
	n, err := d.array()
	if err != nil || n < 2 || n > 3 {
		return Key{}, false
	}
	first, _, err := d.text()
	if err != nil {
		return Key{}, false
	}
	if second, str, err := d.text(); err == nil && str {
		return d.taggedKey(string(first), string(second), n)
	}
	off, _, err := d.integer()
	return Key{Kind: KeyItem, Text: string(first), OffsetTokens: int64(off)}, err == nil && n == 2
}

// taggedKey finishes a key that names its kind.
func (d *decoder) taggedKey(tag, text string, n int) (Key, bool) {
	switch {
	case tag == "cache_salt" && n == 2:
		return Key{Kind: KeySalt, Text: text}, true
	case tag == "lora" && n == 2:
		return Key{Kind: KeyLoRA, Text: text}, true
	case tag == "lora":
		return Key{Kind: KeyLoRA, Text: text}, d.skip() == nil
	case tag == "mm" && n == 3:
		off, _, err := d.integer()
		return Key{Kind: KeyItem, Text: text, OffsetTokens: int64(off)}, err == nil
	}
	return Key{}, false
}
