package media

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, architecture string
		modality           Modality
		n                  int
		want               string
		ok                 bool
	}{
		{"three tokens", "Qwen2_5_VLForConditionalGeneration", Image, 1, "<|vision_start|><|image_pad|><|vision_end|>", true},
		{"inherited", "Qwen3VLMoeForConditionalGeneration", Video, 3, "<|vision_start|><|video_pad|><|vision_end|>", true},
		{"numbered", "Phi4MMForCausalLM", Image, 2, "<|image_2|>", true},
		{"numbered audio", "Qwen2AudioForConditionalGeneration", Audio, 12, "Audio 12: <|audio_bos|><|AUDIO|><|audio_eos|>", true},
		{"a constant of the module", "MiniMaxM3SparseForConditionalGeneration", Image, 1, "]<]image[>[", true},
		{"no text", "PixtralForConditionalGeneration", Image, 1, "", true},
		{"the interface's own", "VoxtralForConditionalGeneration", Audio, 1, "", true},
		{"a modality that the model lacks", "LlavaForConditionalGeneration", Audio, 1, "", false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := Of(row.architecture)
			require.NotNil(t, m)
			got, ok := m.Text(row.modality, row.n)
			require.Equal(t, row.ok, ok)
			require.Equal(t, row.want, got)
		})
	}
}

func TestUnknownArchitectures(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Qwen3ForCausalLM", "Qwen2VL", "# architecture, modality, placeholder"} {
		require.Nil(t, Of(name), name)
	}
}

// TestTable holds every line to its shape, so that a table made anew cannot break the reader silently.
func TestTable(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for line := range strings.Lines(placeholders) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, fields, 3, line)
		require.Contains(t, []Modality{Image, Audio, Video}, Modality(fields[1]))
		require.NotEmpty(t, fields[2])
		key := fields[0] + " " + fields[1]
		require.False(t, seen[key], "%s is there twice", key)
		seen[key] = true
		_, ok := Of(fields[0]).Text(Modality(fields[1]), 1)
		require.True(t, ok)
	}
	require.Greater(t, len(seen), 150)
}
