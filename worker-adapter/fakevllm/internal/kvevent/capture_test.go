package kvevent_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/capture"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/kvevent"
)

// knownKeys are all keys that captured events have; another one would be a field that the encoder does not write.
func knownKeys() string {
	return " type block_hashes parent_block_hash token_ids block_size lora_id medium lora_name extra_keys group_idx " +
		"kv_cache_spec_kind kv_cache_spec_sliding_window session_id "
}

// fromMap builds an event from its decoded form. Hashes are read from numbers or from {"hex": …}.
func fromMap(t *testing.T, m map[string]any) (kvevent.Event, bool) {
	t.Helper()
	for key := range m {
		require.Contains(t, knownKeys(), " "+key+" ")
	}
	var e kvevent.Event
	whole := false
	hash := func(v any) kvevent.Hash {
		var h kvevent.Hash
		switch v := v.(type) {
		case json.Number:
			n, err := strconv.ParseUint(v.String(), 10, 64)
			require.NoError(t, err)
			for i := range 8 {
				h[24+i] = byte(n >> (56 - 8*i))
			}
		case map[string]any:
			b, err := hex.DecodeString(v["hex"].(string))
			require.NoError(t, err)
			copy(h[:], b)
			whole = true
		}
		return h
	}
	switch m["type"] {
	case "AllBlocksCleared":
		e.Kind = kvevent.AllBlocksCleared
		return e, false
	case "BlockRemoved":
		e.Kind = kvevent.BlockRemoved
	}
	for _, v := range m["block_hashes"].([]any) {
		e.Hashes = append(e.Hashes, hash(v))
	}
	if p := m["parent_block_hash"]; p != nil {
		h := hash(p)
		e.Parent = &h
	}
	if ids, ok := m["token_ids"].([]any); ok {
		for _, id := range ids {
			e.Tokens = append(e.Tokens, uint32(number(id)))
		}
	}
	e.BlockSize, e.LoRAID, e.Group = number(m["block_size"]), number(m["lora_id"]), number(m["group_idx"])
	e.Window = number(m["kv_cache_spec_sliding_window"])
	e.Medium, e.LoRAName = text(m["medium"]), text(m["lora_name"])
	e.SpecKind, e.Session = text(m["kv_cache_spec_kind"]), text(m["session_id"])
	e.Extras = extras(m["extra_keys"])
	return e, whole
}

func number(v any) int {
	n, ok := v.(json.Number)
	if !ok {
		return 0
	}
	i, _ := strconv.Atoi(n.String())
	return i
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func extras(v any) [][]kvevent.Extra {
	lists, ok := v.([]any)
	if !ok {
		return nil
	}
	out := make([][]kvevent.Extra, len(lists))
	for i, l := range lists {
		keys, _ := l.([]any)
		for _, k := range keys {
			if item, ok := k.([]any); ok {
				out[i] = append(out[i], kvevent.Extra{Name: text(item[0]), Item: true, Offset: int64(number(item[1]))})
				continue
			}
			out[i] = append(out[i], kvevent.Extra{Name: text(k)})
		}
	}
	return out
}

// fromArray names the elements of a positional event and goes on as with a map.
func fromArray(t *testing.T, a []any) (kvevent.Event, bool) {
	t.Helper()
	names := map[string][]string{
		"BlockStored": {
			"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name",
			"extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window",
		},
		"BlockRemoved":     {"type", "block_hashes", "medium", "group_idx"},
		"AllBlocksCleared": {"type"},
	}[text(a[0])]
	require.Len(t, a, len(names))
	m := map[string]any{}
	for i, name := range names {
		m[name] = a[i]
	}
	return fromMap(t, m)
}

func TestCapturedBatchesEncodeByteForByte(t *testing.T) {
	t.Parallel()
	files := capture.Files(t, "*kv-*.jsonl")
	require.NotEmpty(t, files)
	batches, arrays := 0, 0
	for _, file := range files {
		for _, line := range capture.Read(t, file) {
			if line.Kind != "kv" {
				continue
			}
			d := json.NewDecoder(bytes.NewReader(line.Decoded))
			d.UseNumber()
			var decoded []any
			require.NoError(t, d.Decode(&decoded))
			ts, err := decoded[0].(json.Number).Float64()
			require.NoError(t, err)
			b := kvevent.Batch{Timestamp: ts, Rank: number(decoded[2])}
			o := kvevent.Options{Arrays: strings.HasPrefix(file, "v0.23-")}
			for _, raw := range decoded[1].([]any) {
				var e kvevent.Event
				whole := false
				if o.Arrays {
					e, whole = fromArray(t, raw.([]any))
					arrays++
				} else {
					e, whole = fromMap(t, raw.(map[string]any))
				}
				o.BytesHashes = o.BytesHashes || whole
				b.Events = append(b.Events, e)
			}
			got := hex.EncodeToString(kvevent.Append(nil, &b, o))
			require.Equal(t, line.Payload, got, "%s seq %d", file, line.Seq)
			batches++
		}
	}
	t.Logf("%d batches, %d positional events", batches, arrays)
	require.Greater(t, batches, 190)
	require.Greater(t, arrays, 20)
}

// The vectors of the reference that no capture has: a multimodal item with a negative offset, and a cleared cache
// between other events.
func TestReferenceVectors(t *testing.T) {
	t.Parallel()
	counting := kvevent.Hash{}
	for i := range counting {
		counting[i] = byte(i)
	}
	parent := kvevent.Hash(bytes.Repeat([]byte{0xab}, 32))
	var removed kvevent.Hash
	copy(removed[24:], []byte{0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10})
	for _, row := range []struct {
		name  string
		batch kvevent.Batch
		opts  kvevent.Options
		want  string
	}{
		{
			name: "image with negative offset, window, whole hashes",
			batch: kvevent.Batch{Timestamp: 1755700003, Rank: 1, Events: []kvevent.Event{{
				Hashes: []kvevent.Hash{counting}, Parent: &parent, Tokens: []uint32{70000, 128000, 1, 2}, BlockSize: 4,
				LoRAID: 1, LoRAName: "my-lora", Medium: "GPU", Group: 1, SpecKind: "sliding_window", Window: 1024,
				Extras: [][]kvevent.Extra{{{Name: "my-lora"}, {Name: "mmhash0", Item: true, Offset: -2}, {Name: "salt-a"}}},
			}}},
			opts: kvevent.Options{BytesHashes: true},
			want: "93cb41da2976c8c00000918ca474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391c42000010203040506" +
				"0708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1fb1706172656e745f626c6f636b5f68617368c420" +
				strings.Repeat("ab", 32) + "a9746f6b656e5f69647394ce00011170ce0001f4000102aa626c6f636b5f7369" +
				"7a6504a76c6f72615f696401a66d656469756da3475055a96c6f72615f6e616d65a76d792d6c6f7261aa65787472615f6b6579739193" +
				"a76d792d6c6f726192a76d6d6861736830fea673616c742d61a967726f75705f69647801b26b765f63616368655f737065635f6b696e" +
				"64ae736c6964696e675f77696e646f77bc6b765f63616368655f737065635f736c6964696e675f77696e646f77cd040001",
		},
		{
			name: "removed, then cleared",
			batch: kvevent.Batch{Timestamp: 1755700001.25, Rank: 3, Events: []kvevent.Event{
				{Kind: kvevent.BlockRemoved, Hashes: []kvevent.Hash{removed}, Medium: "GPU"},
				{Kind: kvevent.AllBlocksCleared},
			}},
			want: "93cb41da2976c85000009284a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cffedcba987654" +
				"3210a66d656469756da3475055a967726f75705f6964780081a474797065b0416c6c426c6f636b73436c656172656403",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, hex.EncodeToString(kvevent.Append(nil, &row.batch, row.opts)))
		})
	}
}
