package registry_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
)

// harmonyPrompt is a Harmony prompt as the template service gives it, and a digest of the ids that OpenAI's published
// implementation makes of it (template-svc/internal/harmony/testdata/make_harmony.py).
type harmonyPrompt struct {
	Text   string `json:"text"`
	Cuts   []int  `json:"cuts"`
	Count  int    `json:"count"`
	SHA256 string `json:"sha256"`
}

// compareHarmony encodes what stands between the cuts alone, as Encode does.
func compareHarmony(t *testing.T, m *model.Model) {
	t.Helper()
	raw, err := os.ReadFile("../../testdata/golden/harmony.json")
	require.NoError(t, err)
	var prompts []harmonyPrompt
	require.NoError(t, json.Unmarshal(raw, &prompts))
	require.Greater(t, len(prompts), 100)
	cut := 0
	for i, p := range prompts {
		var ids []uint32
		start := 0
		for _, end := range append(p.Cuts, len(p.Text)) {
			ids, err = m.Encode(ids, []byte(p.Text[start:end]), false)
			require.NoError(t, err)
			start = end
		}
		cut += len(p.Cuts)
		require.Len(t, ids, p.Count, "prompt %d", i)
		sum := sha256.New()
		require.NoError(t, binary.Write(sum, binary.LittleEndian, ids))
		require.Equal(t, p.SHA256, hex.EncodeToString(sum.Sum(nil)), "prompt %d", i)
	}
	t.Logf("ids of %d Harmony prompts with %d cuts equal to openai-harmony's", len(prompts), cut)
}
