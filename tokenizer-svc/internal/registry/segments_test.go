package registry_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/fixture"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
)

// styles are the marks that chat templates of the tested tokenizers put around a message.
var styles = map[string][2]string{
	"qwen3":       {"<|im_start|>user\n", "<|im_end|>\n"},
	"gptoss":      {"<|start|>user<|message|>", "<|end|>"},
	"deepseek_v3": {"<｜User｜>", "<｜end▁of▁sentence｜>"},
	"demo-model":  {"<|im_start|>user\n", "<|im_end|>\n"},
	"kimi":        {"<|im_user|>user<|im_middle|>", "<|im_end|>"},
	"bpe-old":     {"<s>[INST] ", " [/INST] </s>"},
	"wordpiece":   {"[CLS]", "[SEP]"},
}

// contents are what messages are made of: whole words, spaces at the ends, other marks, halves of marks, odd bytes.
var contents = []string{
	"The sea is calm. ", " and", "\n\n", "  ", "café", "你好", "func main() {\n\t", "<|im_end", "|>", "<think>", "</think>",
	"<|im_end|>", "<s>", "[SEP]", "\x00", "\xe4\xbd", "e\u0301", "'ll", "123456", "<｜User｜>", "\u0301", "🙂",
}

// compareSegments grows random conversations turn by turn and compares each turn, through a cache that holds the earlier
// ones, with the reference on the whole.
func compareSegments(t *testing.T, name string, m *model.Model) {
	t.Helper()
	style, ok := styles[name]
	if !ok {
		return
	}
	hit, missed := m.Stats().HitBytes.Load(), m.Stats().MissBytes.Load()
	rng := rand.New(rand.NewPCG(11, 12))
	for range 12 {
		var chat strings.Builder
		for turn := range 8 {
			chat.WriteString(style[0])
			for range rng.IntN(40) {
				chat.WriteString(contents[rng.IntN(len(contents))])
			}
			chat.WriteString(style[1])
			text := []byte(chat.String())
			want, err := m.EncodeReference(nil, text, turn%2 == 0)
			require.NoError(t, err)
			got, err := m.Encode(nil, text, turn%2 == 0)
			require.NoError(t, err)
			require.True(t, slices.Equal(want, got), "%q", text)
			var e model.Encoding
			r := model.Request{Text: text, AddSpecial: turn%2 == 0, Root: 3, Salt: style[0]}
			require.NoError(t, m.Units(&e, r))
			require.Equal(t, len(want), e.Tokens(), "%q", text)
			require.True(t, slices.Equal(kvblock.AppendUnits(nil, r.Root, want, r.Salt), e.Units()), "%q", text)
		}
	}
	hit, missed = m.Stats().HitBytes.Load()-hit, m.Stats().MissBytes.Load()-missed
	require.Greater(t, hit, missed, "most of a conversation is known")
}

// TestConcurrentEncodes runs one model from many goroutines, as a server does.
func TestConcurrentEncodes(t *testing.T) {
	t.Parallel()
	m := open(t, "demo-model")
	texts := fixture.Texts(t)[:120]
	want := make([][]uint32, len(texts))
	for i, text := range texts {
		var err error
		want[i], err = m.EncodeReference(nil, text, false)
		require.NoError(t, err)
	}
	var group sync.WaitGroup
	for worker := range 32 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 0))
			var ids []uint32
			for range 150 {
				i := rng.IntN(len(texts))
				var err error
				if ids, err = m.Encode(ids[:0], texts[i], false); err != nil {
					t.Errorf("text %d: %v", i, err)
					return
				}
				if !slices.Equal(ids, want[i]) {
					t.Errorf("text %d has other ids on worker %d", i, worker)
					return
				}
			}
		})
	}
	group.Wait()
}
