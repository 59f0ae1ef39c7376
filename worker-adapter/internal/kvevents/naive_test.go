package kvevents_test

import (
	"encoding/binary"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
)

// naiveDecode is the slow second opinion: a general msgpack library into any, then field by field. It shares no code
// with the decoder under test.
func naiveDecode(payload []byte) (kvevents.Batch, error) {
	var top []any
	if err := msgpack.Unmarshal(payload, &top); err != nil {
		return kvevents.Batch{}, err
	}
	b := kvevents.Batch{Seconds: top[0].(float64), Rank: kvevents.NoRank}
	if len(top) > 2 && top[2] != nil {
		b.Rank = int(naiveInt(top[2]))
	}
	for _, e := range top[1].([]any) {
		ev, ok := naiveEvent(e)
		if !ok {
			b.Skipped++
			continue
		}
		b.Events = append(b.Events, ev)
	}
	return b, nil
}

// naiveNames are the fields by position, as vLLM 0.23's classes declare them.
func naiveNames(class string) []string {
	if class == "BlockRemoved" {
		return []string{"block_hashes", "medium", "group_idx"}
	}
	return []string{
		"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name",
		"extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window",
	}
}

func naiveEvent(e any) (kvevents.Event, bool) {
	fields := map[string]any{}
	switch v := e.(type) {
	case map[string]any:
		fields = v
	case []any:
		class := v[0].(string)
		fields["type"] = class
		for i, name := range naiveNames(class) {
			if i+1 < len(v) {
				fields[name] = v[i+1]
			}
		}
	}
	kinds := map[string]kvevents.Kind{
		"BlockStored": kvevents.Stored, "BlockRemoved": kvevents.Removed, "AllBlocksCleared": kvevents.Cleared,
	}
	class, _ := fields["type"].(string)
	ev := kvevents.Event{Kind: kinds[class]}
	if ev.Kind == 0 {
		return ev, false
	}
	naiveFill(&ev, fields)
	return ev, true
}

func naiveFill(ev *kvevents.Event, fields map[string]any) {
	for _, h := range naiveList(fields["block_hashes"]) {
		ev.Hashes = append(ev.Hashes, naiveHash(h))
	}
	if p := fields["parent_block_hash"]; p != nil {
		ev.Parent, ev.HasParent = naiveHash(p), true
	}
	for _, id := range naiveList(fields["token_ids"]) {
		ev.TokenIDs = append(ev.TokenIDs, uint32(naiveInt(id)))
	}
	ev.BlockTokens = int(naiveInt(fields["block_size"]))
	ev.Medium, _ = fields["medium"].(string)
	ev.LoRA, _ = fields["lora_name"].(string)
	ev.Group = int(naiveInt(fields["group_idx"]))
	ev.SpecKind, _ = fields["kv_cache_spec_kind"].(string)
	ev.WindowTokens = int(naiveInt(fields["kv_cache_spec_sliding_window"]))
	ev.Remote = fields["locality"] == "REMOTE"
	some := false
	var extras [][]kvevents.Key
	for _, x := range naiveList(fields["extra_keys"]) {
		keys := naiveKeys(x)
		some = some || len(keys) > 0
		extras = append(extras, keys)
	}
	if some {
		ev.Extras = extras
	}
}

func naiveKeys(x any) []kvevents.Key {
	var keys []kvevents.Key
	for _, k := range naiveList(x) {
		switch v := k.(type) {
		case string:
			keys = append(keys, kvevents.Key{Kind: kvevents.KeyText, Text: v})
		case []any:
			item := kvevents.Key{Kind: kvevents.KeyItem, Text: v[0].(string), OffsetTokens: naiveInt(v[1])}
			keys = append(keys, item)
		default:
			keys = append(keys, kvevents.Key{Kind: kvevents.KeyOdd})
		}
	}
	return keys
}

func naiveList(v any) []any {
	l, _ := v.([]any)
	return l
}

func naiveHash(v any) uint64 {
	if b, ok := v.([]byte); ok {
		return binary.BigEndian.Uint64(b[len(b)-8:])
	}
	return uint64(naiveInt(v))
}

func naiveInt(v any) int64 {
	switch n := v.(type) {
	case nil:
		return 0
	case int8:
		return int64(n)
	case uint8:
		return int64(n)
	case int16:
		return int64(n)
	case uint16:
		return int64(n)
	case int32:
		return int64(n)
	case uint32:
		return int64(n)
	case int64:
		return n
	case uint64:
		return int64(n)
	}
	panic(fmt.Sprintf("no integer: %T", v))
}
