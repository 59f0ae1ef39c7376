package kvevent_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/kvevent"
)

// FuzzAppend holds that whatever is encoded decodes with a library to the same values, in both formats.
func FuzzAppend(f *testing.F) {
	f.Add(uint32(7), int64(-3), "lora", "salt", uint64(1)<<63, 16, 3)
	f.Add(uint32(1<<31), int64(1<<40), "", "", uint64(0), 1, 0)
	f.Add(uint32(255), int64(-40000), "é", string(make([]byte, 300)), uint64(255), 70000, 40)
	f.Fuzz(func(t *testing.T, id uint32, offset int64, name, session string, hash uint64, size, count int) {
		if size < 1 || count < 0 || count > 100 {
			return
		}
		var h kvevent.Hash
		for i := range 8 {
			h[24+i] = byte(hash >> (56 - 8*i))
		}
		e := kvevent.Event{
			Hashes: make([]kvevent.Hash, count), Parent: &h, BlockSize: size, LoRAID: 2, LoRAName: name, Medium: "GPU",
			Session: session, SpecKind: "full_attention", Extras: make([][]kvevent.Extra, count),
		}
		for i := range count {
			e.Hashes[i] = h
			e.Tokens = append(e.Tokens, id)
			e.Extras[i] = []kvevent.Extra{{Name: name, Item: true, Offset: offset}}
		}
		b := kvevent.Batch{Timestamp: 1.5, Events: []kvevent.Event{e}, Rank: 1}
		for _, o := range []kvevent.Options{{}, {Arrays: true}, {BytesHashes: true}} {
			var got []any
			require.NoError(t, msgpack.Unmarshal(kvevent.Append(nil, &b, o), &got))
			require.Equal(t, 1.5, got[0])
			event := got[1].([]any)[0]
			field := func(key string, place int) any {
				if o.Arrays {
					return event.([]any)[place]
				}
				return event.(map[string]any)[key]
			}
			require.Len(t, field("block_hashes", 1), count)
			require.Len(t, field("token_ids", 3), count)
			require.Equal(t, fmt.Sprint(size), fmt.Sprint(field("block_size", 4)))
			if o.BytesHashes {
				require.Equal(t, h[:], field("parent_block_hash", 2))
			} else {
				require.Equal(t, fmt.Sprint(hash), fmt.Sprint(field("parent_block_hash", 2)))
			}
			if count > 0 {
				require.Equal(t, fmt.Sprint(id), fmt.Sprint(field("token_ids", 3).([]any)[0]))
				item := field("extra_keys", 8).([]any)[0].([]any)[0].([]any)
				require.Equal(t, fmt.Sprint(name, offset), fmt.Sprint(item[0], item[1]))
			}
			if !o.Arrays && session != "" {
				require.Equal(t, session, field("session_id", 0))
			}
		}
	})
}
