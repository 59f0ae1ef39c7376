package stream_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/stream"
)

// decodeBytes is a tokenizer with one id per byte: id = byte. Ids from 256 on are special and give nothing.
func decodeBytes(dst []byte, ids []uint32) ([]byte, error) {
	var raw []byte
	for _, id := range ids {
		if id < 256 {
			raw = append(raw, byte(id))
		}
	}
	return append(dst, lossy(raw)...), nil
}

// lossy replaces each broken part of a character by U+FFFD, as decoders do.
func lossy(raw []byte) []byte { return []byte(strings.ToValidUTF8(string(raw), "\ufffd")) }

// decodeWords is SentencePiece-like: every id is a word, and the first of a text loses its space.
func decodeWords(dst []byte, ids []uint32) ([]byte, error) {
	var out strings.Builder
	for _, id := range ids {
		out.WriteString(" w" + string(rune('a'+id%26)))
	}
	return append(dst, strings.TrimPrefix(out.String(), " ")...), nil
}

func ids(text string) []uint32 {
	out := make([]uint32, len(text))
	for i := range len(text) {
		out[i] = uint32(text[i])
	}
	return out
}

// feed gives ids to a stream in parts of random size and returns each step's text; the last is the flush.
func feed(t *testing.T, all []uint32, decode stream.Decoder, rng *rand.Rand) []string {
	t.Helper()
	var state stream.State
	var out []string
	for len(all) > 0 {
		n := 1 + rng.IntN(min(3, len(all)))
		text, next, err := stream.Step(nil, state, all[:n], decode)
		require.NoError(t, err)
		require.True(t, next.Valid())
		out = append(out, string(text))
		state, all = next, all[n:]
	}
	text, err := stream.Flush(nil, state, decode)
	require.NoError(t, err)
	return append(out, string(text))
}

func TestPiecesMakeTheWhole(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 9))
	rows := []struct {
		name   string
		decode stream.Decoder
		ids    func() []uint32
	}{
		{"characters over several ids", decodeBytes, func() []uint32 { return ids(randomText(rng)) }},
		{"special ids between", decodeBytes, func() []uint32 {
			out := ids(randomText(rng))
			for range 5 {
				at := rng.IntN(len(out) + 1)
				out = append(out[:at], append([]uint32{300}, out[at:]...)...)
			}
			return out
		}},
		{"words with a space before", decodeWords, func() []uint32 { return ids(randomText(rng)) }},
		{"cut inside a character", decodeBytes, func() []uint32 {
			out := ids(randomText(rng))
			return out[:rng.IntN(len(out)+1)]
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			for range 500 {
				all := row.ids()
				whole, err := row.decode(nil, all)
				require.NoError(t, err)
				parts := feed(t, all, row.decode, rng)
				require.Equal(t, string(whole), strings.Join(parts, ""))
				for _, part := range parts[:len(parts)-1] {
					require.True(t, utf8.ValidString(part))
					require.NotContains(t, part, "\ufffd", "half a character was given out")
				}
			}
		})
	}
}

func randomText(rng *rand.Rand) string {
	var out strings.Builder
	for range 1 + rng.IntN(20) {
		out.WriteString([]string{"a", "é", "語", "🙂", " ", "\x00", "\n"}[rng.IntN(7)])
	}
	return out.String()
}

func TestHalfCharactersAreHeldBack(t *testing.T) {
	t.Parallel()
	smile := "🙂"
	text, state, err := stream.Step(nil, stream.State{}, ids("a"+smile[:2]), decodeBytes)
	require.NoError(t, err)
	require.Equal(t, "a", string(text))
	text, state, err = stream.Step(nil, state, ids(smile[2:3]), decodeBytes)
	require.NoError(t, err)
	require.Empty(t, text)
	whole, _, err := stream.Step(nil, state, ids(smile[3:]), decodeBytes)
	require.NoError(t, err)
	require.Equal(t, smile, string(whole))
	flushed, err := stream.Flush(nil, state, decodeBytes)
	require.NoError(t, err)
	require.Equal(t, "\ufffd", string(flushed))
}

func TestStepLeavesTheOldState(t *testing.T) {
	t.Parallel()
	_, state, err := stream.Step(nil, stream.State{}, ids("ab"), decodeBytes)
	require.NoError(t, err)
	before := append([]uint32(nil), state.Pending...)
	for _, next := range []string{"c", "d"} {
		text, _, err := stream.Step(nil, state, ids(next), decodeBytes)
		require.NoError(t, err)
		require.Equal(t, next, string(text))
	}
	require.Equal(t, before, state.Pending)
}

func TestPendingIsBounded(t *testing.T) {
	t.Parallel()
	special := make([]uint32, 5000)
	for i := range special {
		special[i] = 300
	}
	cheap := func(dst []byte, ids []uint32) ([]byte, error) { return dst, nil }
	_, state, err := stream.Step(nil, stream.State{}, special, cheap)
	require.NoError(t, err)
	require.True(t, state.Valid())
}

func TestErrorsLeaveTheState(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	fails := func(dst []byte, ids []uint32) ([]byte, error) { return dst, broken }
	state := stream.State{Pending: []uint32{1, 2}, Read: 1}
	_, after, err := stream.Step(nil, state, []uint32{3}, fails)
	require.ErrorIs(t, err, broken)
	require.Equal(t, state, after)
	_, err = stream.Flush(nil, state, fails)
	require.ErrorIs(t, err, broken)
}

func TestStatesFromOutside(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		state stream.State
		valid bool
	}{
		{"zero", stream.State{}, true},
		{"all read", stream.State{Pending: []uint32{1}, Read: 1}, true},
		{"read beyond the end", stream.State{Pending: []uint32{1}, Read: 2}, false},
		{"negative", stream.State{Read: -1}, false},
		{"too long", stream.State{Pending: make([]uint32, 5000)}, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.valid, row.state.Valid())
		})
	}
}

// TestDecoderThatChangesWhatWasGivenOut cuts by characters, as vLLM does.
func TestDecoderThatChangesWhatWasGivenOut(t *testing.T) {
	t.Parallel()
	fickle := func(dst []byte, ids []uint32) ([]byte, error) {
		if len(ids) > 1 {
			return append(dst, "éé+"...), nil
		}
		return append(dst, strings.Repeat("a", 2*len(ids))...), nil
	}
	text, _, err := stream.Step(nil, stream.State{}, []uint32{1, 2}, fickle)
	require.NoError(t, err)
	require.Equal(t, "aa+", string(text))
}
