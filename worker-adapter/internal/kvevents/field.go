package kvevents

import "encoding/binary"

// field is a member of an event.
type field uint8

const (
	fieldUnknown field = iota
	fieldType
	fieldHashes
	fieldParent
	fieldTokens
	fieldBlockSize
	fieldMedium
	fieldLoRA
	fieldExtras
	fieldGroup
	fieldSpecKind
	fieldWindow
	fieldLocality
	fieldRemaining
)

// fieldOf names the field of a map key; unknown keys are fieldUnknown.
func fieldOf(key []byte) field {
	switch string(key) {
	case "type":
		return fieldType
	case "block_hashes":
		return fieldHashes
	case "parent_block_hash":
		return fieldParent
	case "token_ids":
		return fieldTokens
	case "block_size":
		return fieldBlockSize
	case "medium":
		return fieldMedium
	case "lora_name":
		return fieldLoRA
	case "extra_keys":
		return fieldExtras
	case "group_idx":
		return fieldGroup
	case "kv_cache_spec_kind":
		return fieldSpecKind
	case "kv_cache_spec_sliding_window":
		return fieldWindow
	case "locality":
		return fieldLocality
	case "remaining_copy_counts":
		return fieldRemaining
	}
	return fieldUnknown
}

// order is the order of fields in the array form, after the class name: that of vLLM 0.23, of which earlier versions
// and SGLang send a prefix. lora_id, deprecated, is skipped.
func (k Kind) order() []field {
	switch k {
	case Stored:
		return []field{
			fieldHashes, fieldParent, fieldTokens, fieldBlockSize, fieldUnknown, fieldMedium, fieldLoRA,
			fieldExtras, fieldGroup, fieldSpecKind, fieldWindow,
		}
	case Removed:
		return []field{fieldHashes, fieldMedium, fieldGroup}
	}
	return nil
}

// value reads the next value as field f of ev. A nil leaves the field as it is.
func (d *decoder) value(ev *Event, f field) (err error) {
	if f == fieldUnknown {
		return d.skip()
	}
	if d.isNil() {
		return nil
	}
	switch f {
	case fieldType:
		ev.Kind, err = d.kind()
	case fieldHashes:
		ev.Hashes, err = d.hashList()
	case fieldParent:
		ev.Parent, err = d.hash()
		ev.HasParent = true
	case fieldTokens:
		return d.tokenList(ev)
	case fieldBlockSize:
		ev.BlockTokens, err = d.small(1 << 24)
	case fieldMedium:
		ev.Medium, err = d.name()
	case fieldLoRA:
		ev.LoRA, err = d.name()
	case fieldExtras:
		ev.Extras, err = d.extras()
	case fieldGroup:
		ev.Group, err = d.small(maxRank)
	case fieldSpecKind:
		ev.SpecKind, err = d.name()
	case fieldWindow:
		ev.WindowTokens, err = d.small(1 << 30)
	case fieldLocality:
		var s string
		s, err = d.name()
		ev.Remote = s == "REMOTE"
	case fieldRemaining:
		ev.Remaining, err = d.remaining()
	}
	return err
}

// kind reads a class name.
func (d *decoder) kind() (Kind, error) {
	b, _, err := d.text()
	if err != nil {
		return 0, err
	}
	switch string(b) {
	case "BlockStored":
		return Stored, nil
	case "BlockRemoved":
		return Removed, nil
	case "AllBlocksCleared":
		return Cleared, nil
	}
	return 0, errShape
}

// name reads a string that comes again and again.
func (d *decoder) name() (string, error) {
	b, _, err := d.text()
	return d.batch.strings.get(b), err
}

// small reads a number from 0 to limit.
func (d *decoder) small(limit uint64) (int, error) {
	v, neg, err := d.integer()
	if err == nil && (neg || v > limit) {
		return 0, errShape
	}
	return int(v), err
}

// hash reads one block hash in any of its spellings.
func (d *decoder) hash() (uint64, error) {
	if d.pos < len(d.buf) && d.buf[d.pos] == cUint64 {
		return d.number(8)
	}
	v, _, err := d.integer()
	if err == nil || err != errShape {
		return v, err
	}
	b, _, err := d.text()
	if err != nil {
		return 0, err
	}
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b[len(b)-8:]), nil
	}
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v, nil
}
