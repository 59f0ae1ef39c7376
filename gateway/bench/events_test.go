package bench

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

// read takes one value off a MessagePack text: lists, maps with text keys, text, numbers, nil.
func read(t *testing.T, b *[]byte) any {
	t.Helper()
	c := (*b)[0]
	*b = (*b)[1:]
	cut := func(n int) []byte {
		out := (*b)[:n]
		*b = (*b)[n:]
		return out
	}
	switch {
	case c < 0x80:
		return uint64(c)
	case c&0xf0 == 0x80:
		out := map[string]any{}
		for range c & 0x0f {
			key := read(t, b).(string)
			out[key] = read(t, b)
		}
		return out
	}
	switch c {
	case 0xc0:
		return nil
	case 0xcb, 0xcf:
		return binary.BigEndian.Uint64(cut(8))
	case 0xcc:
		return uint64(cut(1)[0])
	case 0xcd:
		return uint64(binary.BigEndian.Uint16(cut(2)))
	case 0xce:
		return uint64(binary.BigEndian.Uint32(cut(4)))
	case 0xd9:
		return string(cut(int(cut(1)[0])))
	case 0xdd:
		out := make([]any, binary.BigEndian.Uint32(cut(4)))
		for i := range out {
			out[i] = read(t, b)
		}
		return out
	}
	t.Fatalf("no form of MessagePack begins with %#x", c)
	return nil
}

// TestBatchesTellTheCache applies all batches to a set, as an adapter does, and compares it with what the worker holds.
func TestBatchesTellTheCache(t *testing.T) {
	t.Parallel()
	rec, err := newRecorder("")
	require.NoError(t, err)
	require.False(t, rec.on())
	rec.room = 40
	rng := rand.New(rand.NewPCG(2, 2))
	heads := [][]uint32{nil, tokens(rng, 100), tokens(rng, 33)}
	told := map[uint64]bool{}
	for range 300 {
		prompts := make([][]uint32, 1+rng.IntN(2))
		for i := range prompts {
			prompts[i] = slices.Concat(heads[rng.IntN(3)], tokens(rng, rng.IntN(200)))
		}
		payload := rec.batch(prompts)
		batch := read(t, &payload).([]any)
		require.Empty(t, payload)
		require.Len(t, batch, 3)
		for _, ev := range batch[1].([]any) {
			apply(t, ev.(map[string]any), told, prompts)
		}
		require.Len(t, rec.held, len(told))
		for h := range told {
			require.Contains(t, rec.held, h)
		}
		require.LessOrEqual(t, len(told), rec.room)
	}
}

func tokens(rng *rand.Rand, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = rng.Uint32() >> rng.IntN(32)
	}
	return ids
}

// apply checks one event of a prompt and applies it.
func apply(t *testing.T, ev map[string]any, told map[uint64]bool, prompts [][]uint32) {
	t.Helper()
	hashes := ev["block_hashes"].([]any)
	require.NotEmpty(t, hashes)
	if ev["type"] == "BlockRemoved" {
		for _, h := range hashes {
			require.True(t, told[h.(uint64)], "a block goes that never came")
			delete(told, h.(uint64))
		}
		return
	}
	require.Equal(t, "BlockStored", ev["type"])
	require.EqualValues(t, kvblock.UnitTokens, ev["block_size"])
	ids := ev["token_ids"].([]any)
	require.Len(t, ids, len(hashes)*kvblock.UnitTokens)
	require.True(t, slices.ContainsFunc(prompts, func(prompt []uint32) bool {
		from := len(prompt)/kvblock.UnitTokens*kvblock.UnitTokens - len(ids)
		if from < 0 || (from == 0) != (ev["parent_block_hash"] == nil) {
			return false
		}
		for i, id := range ids {
			if id != uint64(prompt[from+i]) {
				return false
			}
		}
		return true
	}), "ids of no prompt")
	for _, h := range hashes {
		told[h.(uint64)] = true
	}
}

// TestPublisherShakesHands reads what a subscriber gets.
func TestPublisherShakesHands(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	rec, err := newRecorder("")
	require.NoError(t, err)
	go rec.serve(ln)
	c, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	hello := make([]byte, 64)
	hello[0], hello[9], hello[10] = 0xff, 0x7f, 3
	_, err = c.Write(append(hello, "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"...))
	require.NoError(t, err)
	got := make([]byte, 64+2+25)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, "NULL", string(got[12:16]))
	require.Equal(t, "\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB", string(got[66:]))
	joined := func() int {
		rec.mu.Lock()
		defer rec.mu.Unlock()
		return len(rec.subs)
	}
	require.Eventually(t, func() bool { return joined() == 1 }, time.Minute, time.Millisecond)
	rec.publish([]byte("payload"))
	got = make([]byte, 4+10+9+7)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, "\x01\x02kv\x01\x08\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x07payload", string(got))
}
