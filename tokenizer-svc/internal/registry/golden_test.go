package registry_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/fixture"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hf"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/registry"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/segment"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/stream"
)

// expectations are what loading must find out about each tokenizer.
var expectations = map[string]struct{ fast, segments bool }{
	"qwen3": {true, true}, "gptoss": {true, true}, "deepseek_v3": {true, true}, "demo-model": {true, true},
	"kimi": {true, true}, "bpe-old": {true, true}, "bpe-always": {false, true}, "bpe-first": {false, false}, "unigram": {false, false},
	"wordpiece": {false, true}, "stripping": {true, true},
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

func digestIDs(ids []uint32) string {
	data := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		data = binary.LittleEndian.AppendUint32(data, id)
	}
	return digest(data)
}

// open loads a tokenizer with both engines and a cache of its own.
func open(t testing.TB, name string) *model.Model {
	t.Helper()
	threads := hf.NewThreads(4)
	t.Cleanup(threads.Close)
	def, err := definition.Read(fixture.Directory(t, name))
	require.NoError(t, err)
	native := &registry.Native{Threads: threads, Cache: segment.NewCache(16 << 20)}
	m, err := native.Open(registry.Spec{Name: name}, def)
	require.NoError(t, err)
	t.Cleanup(m.Release)
	return m
}

// TestGolden loads each tokenizer once and compares every way of encoding with Python: the reference, what the model uses (fast engine and segment
// cache where they are proven), and the same again with a full cache; and decoding.
func TestGolden(t *testing.T) {
	t.Parallel()
	texts := fixture.Texts(t)
	for _, name := range fixture.Tokenizers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := open(t, name)
			fast, why := m.Fast()
			require.Equal(t, expectations[name].fast, fast, why)
			segments, why := m.Segments()
			require.Equal(t, expectations[name].segments, segments, why)
			goldens := fixture.Goldens(t, name)
			require.Len(t, goldens, len(texts))
			compareIDs(t, "reference", m.EncodeReference, texts, goldens)
			compareIDs(t, "as served", m.Encode, texts, goldens)
			compareIDs(t, "as served again", m.Encode, texts, goldens)
			compareText(t, m, texts, goldens)
			compareStream(t, m, texts)
			compareSegments(t, name, m)
			if name == "gptoss" {
				compareHarmony(t, m)
			}
		})
	}
}

type encoder func(dst []uint32, text []byte, addSpecial bool) ([]uint32, error)

func compareIDs(t *testing.T, way string, encode encoder, texts [][]byte, goldens []fixture.Golden) {
	t.Helper()
	for i, golden := range goldens {
		ids, err := encode(nil, texts[i], false)
		require.NoError(t, err)
		require.Equal(t, golden.Count, len(ids), "%s, text %d", way, i)
		require.Equal(t, golden.Plain, digestIDs(ids), "%s, text %d", way, i)
		ids, err = encode(nil, texts[i], true)
		require.NoError(t, err)
		require.Equal(t, golden.SpecialCount, len(ids), "%s, text %d", way, i)
		require.Equal(t, golden.Special, digestIDs(ids), "%s, text %d with special tokens", way, i)
	}
	t.Logf("%s: ids of %d texts equal to Python's", way, len(goldens))
}

func compareText(t *testing.T, m *model.Model, texts [][]byte, goldens []fixture.Golden) {
	t.Helper()
	for i, golden := range goldens {
		ids, err := m.Encode(nil, texts[i], false)
		require.NoError(t, err)
		text, err := m.Decode(nil, ids, false)
		require.NoError(t, err)
		require.Equal(t, golden.Text, digest(text), "text %d", i)
		text, err = m.Decode(text[:0], ids, true)
		require.NoError(t, err)
		require.Equal(t, golden.Visible, digest(text), "text %d without special tokens", i)
	}
}

// compareStream decodes ids one by one, as a worker's steps bring them, and compares with decoding them whole.
func compareStream(t *testing.T, m *model.Model, texts [][]byte) {
	t.Helper()
	// A stream costs two decodes per id; the longest texts say nothing new.
	const maxIDs = 600
	streams := 0
	for i, text := range texts {
		ids, err := m.Encode(nil, text, false)
		require.NoError(t, err)
		if len(ids) > maxIDs {
			continue
		}
		for _, skip := range []bool{false, true} {
			decode := func(dst []byte, ids []uint32) ([]byte, error) { return m.Decode(dst, ids, skip) }
			want, err := m.Decode(nil, ids, skip)
			require.NoError(t, err)
			got, state, err := stream.Step(nil, stream.State{}, ids, decode)
			require.NoError(t, err)
			got, err = stream.Flush(got, state, decode)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), "text %d, special tokens left out: %v", i, skip)
			streams++
		}
	}
	t.Logf("%d streams give the text of the whole", streams)
}
