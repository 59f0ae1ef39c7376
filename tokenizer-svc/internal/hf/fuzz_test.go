//go:build cgo && !nohf

package hf_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/fixture"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hf"
)

// alphabets are what random texts are drawn from: whole pieces, so that rules of several characters are met often.
var alphabets = [][]string{
	strings.Split("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789     ", ""),
	strings.Split(" \t\n\r\v\f\u00a0\u2003\u2028\u3000\u0085", ""),
	strings.Split("'s 't 're 've 'm 'll 'd 'S 'LL ' \" . , ! ? - _ / \\ ( ) { } [ ] < > | = + * & % $ # @ ~ ` ^ : ;", " "),
	strings.Split("é ß ñ Ж д 你 好 語 の カ 한 국 ا ل ع ה न ี ่ ด 🙂 👩 \u200d 🚀 🏽 \u0301 \u0308 ﬁ ² ½ Ⅳ İ ǅ", " "),
	{
		"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<｜User｜>", "<｜Assistant｜>", "<|start|>",
		"<|message|>", "<|end|>", "<|channel|>", "<tool_call>", "<|", "|>", "user", "assistant", "\n",
	},
	{"\x00", "\x01", "\x7f", "\xff", "\xc3", "\xe4\xbd", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\ufffd", "\ufeff", "\U0010ffff"},
	{"the ", " of", "return", "func ", "self.", "import", "ing", "tion", "http://", "0x", "1234", "\r\n\r\n", "    ", "})\n", "//"},
}

// randomText draws a text of up to n pieces that keeps to a few alphabets.
func randomText(rng *rand.Rand, n int) []byte {
	var out []byte
	mix := [3]int{rng.IntN(len(alphabets)), rng.IntN(len(alphabets)), 0}
	for range 1 + rng.IntN(n) {
		alphabet := alphabets[mix[rng.IntN(len(mix))]]
		piece := alphabet[rng.IntN(len(alphabet))]
		for range 1 + rng.IntN(2)*rng.IntN(4) {
			out = append(out, piece...)
		}
	}
	return out
}

// both loads a tokenizer in both engines.
func both(t testing.TB, name string) (reference, fast *hf.Engine) {
	t.Helper()
	threads := newThreads(t, 8)
	def, err := definition.Read(fixture.Directory(t, name))
	require.NoError(t, err)
	open := func(kind hf.Kind) *hf.Engine {
		var engine *hf.Engine
		if def.Ranks != nil {
			engine, err = hf.LoadTiktoken(kind, def.Ranks, def.Spec, threads)
		} else {
			engine, err = hf.Load(kind, def.JSON, threads)
		}
		require.NoError(t, err)
		t.Cleanup(engine.Close)
		return engine
	}
	return open(hf.Reference), open(hf.Fast)
}

// randomTexts is how many texts TestEnginesAgree draws for each tokenizer; the fuzz job sets 30000 and more.
func randomTexts(t *testing.T) (n int, job bool) {
	t.Helper()
	value := os.Getenv("KVMESH_RANDOM_TEXTS")
	if value == "" {
		return 3000, false
	}
	n, err := strconv.Atoi(value)
	require.NoError(t, err, "KVMESH_RANDOM_TEXTS is a number of texts")
	return n, true
}

// TestEnginesAgree compares the engines on random texts and ids; each tokenizer is loaded once for all comparisons. The
// seeds are fixed: a failing text comes again. The two tokenizers that take longest to load are for the fuzz job: here
// package registry compares their engines on golden texts and conversations.
func TestEnginesAgree(t *testing.T) {
	t.Parallel()
	n, job := randomTexts(t)
	names := []string{"qwen3", "demo-model", "kimi", "bpe-old"}
	if job {
		names = append(names, "gptoss", "deepseek_v3")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reference, fast := both(t, name)
			agreeOnTexts(t, reference, fast, n)
			agreeOnIDs(t, reference, fast)
			addSpecials(t, name, reference, fast)
		})
	}
}

func agreeOnTexts(t *testing.T, reference, fast *hf.Engine, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(20261130, 4))
	var want, got []uint32
	for i := range n {
		text := randomText(rng, 60)
		var err error
		want, err = reference.AppendIDs(want[:0], text, i%2 == 0)
		require.NoError(t, err)
		got, err = fast.AppendIDs(got[:0], text, i%2 == 0)
		require.NoError(t, err)
		require.True(t, slices.Equal(want, got), "text %d: %q", i, text)
	}
	t.Logf("%d random texts, no difference", n)
}

// FuzzEngines compares the engines of the demo model on any bytes.
func FuzzEngines(f *testing.F) {
	reference, fast := both(f, "demo-model")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		f.Add(randomText(rng, 40), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, addSpecial bool) {
		want, err := reference.AppendIDs(nil, text, addSpecial)
		require.NoError(t, err)
		got, err := fast.AppendIDs(nil, text, addSpecial)
		require.NoError(t, err)
		require.Equal(t, want, got)
		before, err := reference.AppendText(nil, want, false)
		require.NoError(t, err)
		after, err := fast.AppendText(nil, want, false)
		require.NoError(t, err)
		require.Equal(t, before, after)
	})
}
