package kvevents_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/capture"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
)

// pack encodes a value in the smallest integer form, as msgspec does.
func pack(tb testing.TB, v any) []byte {
	tb.Helper()
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.UseCompactInts(true)
	require.NoError(tb, enc.Encode(v))
	return buf.Bytes()
}

// TestOddEvents puts each odd event between two good ones: the good ones count, the odd one is skipped.
func TestOddEvents(t *testing.T) {
	t.Parallel()
	good := []any{"BlockRemoved", []any{uint64(7)}, "GPU", 0}
	rows := []struct {
		name string
		odd  any
	}{
		{"unknown class in an array", []any{"BlockMoved", []any{1}}},
		{"unknown class in a map", map[string]any{"type": "BlockMoved", "x": 1}},
		{"no class", map[string]any{"block_hashes": []any{1}}},
		{"empty array", []any{}},
		{"a number", 17},
		{"nil", nil},
		{"a string", "BlockStored"},
		{"class is a number", []any{3, []any{1}}},
		{"hashes are a map", []any{"BlockRemoved", map[string]any{"a": 1}}},
		{"hash is a list", []any{"BlockRemoved", []any{[]any{1}}}},
		{"block size is negative", []any{"BlockStored", []any{1}, nil, []any{1}, -4}},
		{"group is text", []any{"BlockRemoved", []any{1}, "GPU", "zero"}},
		{"keys are numbers", map[int]any{1: "BlockRemoved"}},
		{"medium is a list", []any{"BlockRemoved", []any{1}, []any{"GPU"}}},
		{"extra keys are text", []any{"BlockStored", []any{1}, nil, []any{1}, 1, nil, "GPU", nil, "salt"}},
		{"copies left are text", map[string]any{"type": "BlockRemoved", "remaining_copy_counts": []any{"1"}}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var b kvevents.Batch
			require.NoError(t, kvevents.Decode(pack(t, []any{1.5, []any{good, row.odd, good}, 2}), &b))
			require.Equal(t, 1, b.Skipped)
			require.Len(t, b.Events, 2)
			require.Equal(t, []uint64{7}, b.Events[1].Hashes)
			require.Equal(t, 2, b.Rank)
		})
	}
}

// TestTolerated holds events that must count although they carry more or less than is known.
func TestTolerated(t *testing.T) {
	t.Parallel()
	stored := func(change map[string]any) map[string]any {
		m := map[string]any{
			"type": "BlockStored", "block_hashes": []any{uint64(1)}, "parent_block_hash": nil,
			"token_ids": []any{1, 200, 70000, 5}, "block_size": 4, "medium": "GPU",
		}
		for k, v := range change {
			m[k] = v
		}
		return m
	}
	base := kvevents.Event{
		Kind: kvevents.Stored, Hashes: []uint64{1}, TokenIDs: []uint32{1, 200, 70000, 5}, BlockTokens: 4, Medium: "GPU",
	}
	with := func(change func(*kvevents.Event)) kvevents.Event {
		ev := base
		change(&ev)
		return ev
	}
	rows := []struct {
		name  string
		event any
		want  kvevents.Event
	}{
		{"unknown members", stored(map[string]any{"ownership": "x", "session_id": []any{map[string]any{"a": nil}}}), base},
		{"remote", stored(map[string]any{"locality": "REMOTE"}), with(func(e *kvevents.Event) { e.Remote = true })},
		{"signed hash", stored(map[string]any{"block_hashes": []any{int64(-2)}}), with(func(e *kvevents.Event) {
			e.Hashes = []uint64{math.MaxUint64 - 1}
		})},
		{
			"16-byte hash", stored(map[string]any{"block_hashes": []any{[]byte("0123456789abcdef")}}),
			with(func(e *kvevents.Event) { e.Hashes = []uint64{0x3839616263646566} }),
		},
		{
			"short byte hash", stored(map[string]any{"block_hashes": []any{[]byte{1, 2}}}),
			with(func(e *kvevents.Event) { e.Hashes = []uint64{0x0102} }),
		},
		{"bigrams", stored(map[string]any{"token_ids": []any{[]any{1, 2}, []any{2, 3}}}), with(func(e *kvevents.Event) {
			e.TokenIDs, e.OddIDs = nil, true
		})},
		{"negative id", stored(map[string]any{"token_ids": []any{-1}}), with(func(e *kvevents.Event) {
			e.TokenIDs, e.OddIDs = nil, true
		})},
		{"SGLang: six fields, signed", []any{
			"BlockStored", []any{int64(-5)}, int64(-9), []any{1, 2, 3, 4}, 4, nil, "CPU_PINNED",
		}, with(func(e *kvevents.Event) {
			e.Hashes, e.Parent, e.HasParent = []uint64{math.MaxUint64 - 4}, math.MaxUint64-8, true
			e.TokenIDs, e.Medium = []uint32{1, 2, 3, 4}, "CPU_PINNED"
		})},
		{
			"vLLM 0.9: four fields",
			[]any{"BlockStored", []any{1}, nil, []any{1, 200, 70000, 5}, 4},
			with(func(e *kvevents.Event) { e.Medium = "" }),
		},
		{"more elements than known", []any{
			"BlockRemoved", []any{1}, "CPU", 2, []any{"later"}, map[string]any{"and": "more"},
		}, kvevents.Event{Kind: kvevents.Removed, Hashes: []uint64{1}, Medium: "CPU", Group: 2}},
		{"copies left", map[string]any{
			"type": "BlockRemoved", "block_hashes": []any{1, 2}, "remaining_copy_counts": []any{0, 3},
		}, kvevents.Event{Kind: kvevents.Removed, Hashes: []uint64{1, 2}, Remaining: []uint32{0, 3}}},
		{
			"connector's placeholder", stored(map[string]any{"token_ids": []any{}, "block_size": 0, "medium": "CPU"}),
			with(func(e *kvevents.Event) { e.TokenIDs, e.BlockTokens, e.Medium = nil, 0, "CPU" }),
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var b kvevents.Batch
			require.NoError(t, kvevents.Decode(pack(t, []any{1, []any{row.event}}), &b))
			require.Zero(t, b.Skipped)
			require.Equal(t, kvevents.NoRank, b.Rank)
			require.Empty(t, cmp.Diff([]kvevents.Event{row.want}, b.Events, sameBatch()))
		})
	}
}

func TestExtra(t *testing.T) {
	t.Parallel()
	item := []any{"img", int64(-2)}
	one := kvblock.Extra{Items: []kvblock.Item{{Key: "img", OffsetTokens: -2}}}
	rows := []struct {
		name   string
		keys   []any
		parent any
		lora   any
		want   kvblock.Extra
		ok     bool
	}{
		{name: "none", ok: true},
		{name: "LoRA", keys: []any{"ad"}, lora: "ad", ok: true},
		{name: "LoRA and salt", keys: []any{"ad", "s"}, lora: "ad", want: kvblock.Extra{Salt: "s"}, ok: true},
		{name: "salt spelt as the LoRA", keys: []any{"ad", "ad"}, lora: "ad", want: kvblock.Extra{Salt: "ad"}, ok: true},
		{name: "salt", keys: []any{"s"}, want: kvblock.Extra{Salt: "s"}, ok: true},
		{name: "item", keys: []any{item}, parent: 9, want: one, ok: true},
		{name: "tagged", keys: []any{
			[]any{"lora", "ad", "/p"}, []any{"mm", "img", -2}, []any{"cache_salt", "s"},
		}, lora: "ad", want: kvblock.Extra{Salt: "s", Items: one.Items}, ok: true},
		{name: "plain string behind a parent", keys: []any{"img"}, parent: 9},
		{name: "two plain strings", keys: []any{"img", "s"}},
		{name: "embeddings", keys: []any{[]byte{1, 2}}},
		{name: "unknown tuple", keys: []any{[]any{"x", "y", "z", "u"}}},
		{name: "unknown tag", keys: []any{[]any{"x", "y"}}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			ev := []any{"BlockStored", []any{1}, row.parent, []any{1}, 1, nil, "GPU", row.lora, []any{row.keys}}
			var b kvevents.Batch
			require.NoError(t, kvevents.Decode(pack(t, []any{1, []any{ev}}), &b))
			got, ok := b.Events[0].Extra(0)
			require.Equal(t, row.ok, ok)
			require.Equal(t, row.want, got)
			_, ok = b.Events[0].Extra(1)
			require.True(t, ok, "a block beyond the list has no extras")
		})
	}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	whole, err := hex.DecodeString(exampleA)
	require.NoError(t, err)
	for n := range len(whole) - 1 {
		var b kvevents.Batch
		require.Error(t, kvevents.Decode(whole[:n], &b), "cut at %d", n)
	}
	rows := []struct {
		name    string
		payload []byte
	}{
		{"map at the top", pack(t, map[string]any{"a": 1})},
		{"only a time", pack(t, []any{1.0})},
		{"events are text", pack(t, []any{1.0, "x"})},
		{"time is text", pack(t, []any{"x", []any{}})},
		{"array longer than the bytes", []byte{0x92, 1, 0xdd, 0xff, 0xff, 0xff, 0xff}},
		{"reserved byte", []byte{0x92, 1, 0x91, 0xc1}},
		{"too large", make([]byte, kvevents.MaxBatchBytes+1)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var b kvevents.Batch
			require.Error(t, kvevents.Decode(row.payload, &b))
		})
	}
}

// TestRegular: hashes may be computed from ids only where both cover the same blocks.
func TestRegular(t *testing.T) {
	t.Parallel()
	ev := kvevents.Event{Hashes: []uint64{1, 2}, TokenIDs: make([]uint32, 64), BlockTokens: 32}
	require.True(t, ev.Regular())
	ev.BlockTokens = 16
	require.False(t, ev.Regular(), "two hashes, 64 ids, block size 16")
	ev.BlockTokens = 0
	require.False(t, ev.Regular())
	ev = kvevents.Event{Hashes: []uint64{1}, OddIDs: true, BlockTokens: 4}
	require.False(t, ev.Regular())
}

// FuzzDecode: no input panics, and a reused Batch gives what a fresh one gives.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"kv-p-short", "v0.23-kv-p-short", "bytes-kv-d-lora"} {
		s, err := capture.Load(name)
		require.NoError(f, err)
		f.Add(s.Messages[0].Payload)
	}
	for _, h := range []string{exampleA, exampleB, exampleC, exampleD} {
		b, err := hex.DecodeString(h)
		require.NoError(f, err)
		f.Add(b)
	}
	used, err := hex.DecodeString(exampleD)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, payload []byte) {
		var fresh, reused kvevents.Batch
		require.NoError(t, kvevents.Decode(used, &reused))
		errFresh := kvevents.Decode(payload, &fresh)
		errReused := kvevents.Decode(payload, &reused)
		require.Equal(t, errFresh == nil, errReused == nil)
		fresh.Seconds, reused.Seconds = 0, 0 // NaN never equals itself
		require.Empty(t, cmp.Diff(fresh, reused, sameBatch()))
		for i := range fresh.Events {
			fresh.Events[i].Extra(0)
		}
	})
}

// BenchmarkDecode is one step with 32 blocks of 16 tokens and ids of a 150,000-entry vocabulary; lines has a line's end (198 in
// Qwen's vocabulary) at every sixteenth.
func BenchmarkDecode(b *testing.B) {
	for name, lines := range map[string]bool{"ids": false, "lines": true} {
		b.Run(name, func(b *testing.B) { benchDecode(b, lines) })
	}
}

func benchDecode(b *testing.B, lines bool) {
	b.Helper()
	hashes, ids, none := make([]any, 32), make([]any, 512), make([]any, 32)
	for i := range hashes {
		hashes[i] = uint64(i+1) * 0x9e3779b97f4a7c15
	}
	for i := range ids {
		if ids[i] = (i * 7919) % 150000; lines && i%16 == 15 {
			ids[i] = 198
		}
	}
	payload := pack(b, []any{1.5, []any{map[string]any{
		"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": nil, "token_ids": ids, "block_size": 16,
		"lora_id": nil, "medium": "GPU", "lora_name": nil, "extra_keys": none, "group_idx": 0,
		"kv_cache_spec_kind": "full_attention",
	}}, 0})
	var batch kvevents.Batch
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	before := cpu()
	for b.Loop() {
		if err := kvevents.Decode(payload, &batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// cpu is the processor time of this process: on a busy machine wall time says little.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
