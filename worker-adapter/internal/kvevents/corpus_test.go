package kvevents_test

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/capture"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sameBatch compares what batches say, not the memory they reuse.
func sameBatch() cmp.Options {
	return cmp.Options{cmpopts.IgnoreUnexported(kvevents.Batch{}), cmpopts.EquateEmpty()}
}

// TestCaptured decodes every batch that a real vLLM was seen to publish or replay, in one reused Batch, and derives
// each again with the naive decoder.
func TestCaptured(t *testing.T) {
	t.Parallel()
	scenarios, err := capture.All()
	require.NoError(t, err)
	var got kvevents.Batch
	batches, events := 0, 0
	for _, s := range scenarios {
		for name, payload := range payloads(s) {
			want, err := naiveDecode(payload)
			require.NoError(t, err, name)
			require.NoError(t, kvevents.Decode(payload, &got), name)
			require.Empty(t, cmp.Diff(want, got, sameBatch()), "%s %s", s.Name, name)
			require.Zero(t, got.Skipped, name)
			batches++
			events += len(got.Events)
		}
	}
	require.GreaterOrEqual(t, batches, 195, "the recordings hold 195 published batches")
	t.Logf("%d batches, %d events", batches, events)
}

// payloads are the published and replayed payloads of a recording.
func payloads(s capture.Scenario) map[string][]byte {
	out := map[string][]byte{}
	for i, m := range s.Messages {
		out[fmt.Sprintf("message %d seq %d", i, m.Seq)] = m.Payload
	}
	for i, r := range s.Replays {
		for j, reply := range r.Replies {
			if p := reply[len(reply)-1]; len(p) > 0 {
				out[fmt.Sprintf("replay %d.%d", i, j)] = p
			}
		}
	}
	return out
}

// Examples A to D: made by hand from the wire rules of vLLM 0.24 and later (A, B, D) and 0.23 (C).
const (
	exampleA = "93cb41da2976c8200000918ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657392cf123456789abcdef0" +
		"cffedcba9876543210b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739801020304050607cd012caa626c" +
		"6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa65787472615f6b65797392" +
		"c0c0a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e00"
	exampleB = "93cb41da2976c85000009284a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cffedcba98765432" +
		"10a66d656469756da3475055a967726f75705f6964780081a474797065b0416c6c426c6f636b73436c656172656403"
	exampleC = "93cb41da2976c8800000939cab426c6f636b53746f72656491cf123456789abcdef0c0940102030404c0a3475055c09191a67361" +
		"6c742d6100c0c094ac426c6f636b52656d6f76656491cf123456789abcdef0a34750550091b0416c6c426c6f636b73436c656172" +
		"656400"
	exampleD = "93cb41da2976c8c00000918ca474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391c42000010203040506" +
		"0708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1fb1706172656e745f626c6f636b5f68617368c420abababababababa" +
		"bababababababababababababababababababababababababa9746f6b656e5f69647394ce00011170ce0001f4000102aa626c6f63" +
		"6b5f73697a6504a76c6f72615f696401a66d656469756da3475055a96c6f72615f6e616d65a76d792d6c6f7261aa65787472615f6" +
		"b6579739193a76d792d6c6f726192a76d6d6861736830fea673616c742d61a967726f75705f69647801b26b765f63616368655f73" +
		"7065635f6b696e64ae736c6964696e675f77696e646f77bc6b765f63616368655f737065635f736c6964696e675f77696e646f77c" +
		"d040001"
)

func TestExamples(t *testing.T) {
	t.Parallel()
	text := func(s string) kvevents.Key { return kvevents.Key{Kind: kvevents.KeyText, Text: s} }
	rows := []struct {
		name, hex string
		want      kvevents.Batch
	}{
		{"A: maps, integer hashes", exampleA, kvevents.Batch{Seconds: 1755700000.5, Events: []kvevents.Event{{
			Kind: kvevents.Stored, Hashes: []uint64{0x123456789abcdef0, 0xfedcba9876543210},
			TokenIDs: []uint32{1, 2, 3, 4, 5, 6, 7, 300}, BlockTokens: 4, Medium: "GPU", SpecKind: "full_attention",
		}}}},
		{"B: removed and cleared", exampleB, kvevents.Batch{Seconds: 1755700001.25, Rank: 3, Events: []kvevents.Event{
			{Kind: kvevents.Removed, Hashes: []uint64{0xfedcba9876543210}, Medium: "GPU"},
			{Kind: kvevents.Cleared},
		}}},
		{"C: arrays", exampleC, kvevents.Batch{Seconds: 1755700002, Events: []kvevents.Event{
			{
				Kind: kvevents.Stored, Hashes: []uint64{0x123456789abcdef0}, TokenIDs: []uint32{1, 2, 3, 4},
				BlockTokens: 4, Medium: "GPU", Extras: [][]kvevents.Key{{text("salt-a")}},
			},
			{Kind: kvevents.Removed, Hashes: []uint64{0x123456789abcdef0}, Medium: "GPU"},
			{Kind: kvevents.Cleared},
		}}},
		{"D: byte hashes, all extras", exampleD, kvevents.Batch{Seconds: 1755700003, Rank: 1, Events: []kvevents.Event{{
			Kind: kvevents.Stored, Hashes: []uint64{0x18191a1b1c1d1e1f}, Parent: 0xabababababababab, HasParent: true,
			TokenIDs: []uint32{70000, 128000, 1, 2}, BlockTokens: 4, Medium: "GPU", LoRA: "my-lora", Group: 1,
			SpecKind: "sliding_window", WindowTokens: 1024,
			Extras: [][]kvevents.Key{{
				text("my-lora"), {Kind: kvevents.KeyItem, Text: "mmhash0", OffsetTokens: -2}, text("salt-a"),
			}},
		}}}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			payload, err := hex.DecodeString(row.hex)
			require.NoError(t, err)
			var got kvevents.Batch
			require.NoError(t, kvevents.Decode(payload, &got))
			require.Empty(t, cmp.Diff(row.want, got, sameBatch()))
			naive, err := naiveDecode(payload)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(naive, got, sameBatch()))
		})
	}
}
