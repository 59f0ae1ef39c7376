//go:build cgo && !nohf

package hf_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/fixture"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hf"
)

// kinds are both engines, for tests that hold for either.
var kinds = []hf.Kind{hf.Reference, hf.Fast}

func demo(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(fixture.Demo(t), "tokenizer.json"))
	require.NoError(t, err)
	return data
}

func newThreads(t testing.TB, limit int) *hf.Threads {
	t.Helper()
	threads := hf.NewThreads(limit)
	t.Cleanup(threads.Close)
	return threads
}

func newEngine(t testing.TB, kind hf.Kind) *hf.Engine {
	t.Helper()
	engine, err := hf.Load(kind, demo(t), newThreads(t, 8))
	require.NoError(t, err)
	t.Cleanup(engine.Close)
	return engine
}

func TestTextSurvivesTheRoundTrip(t *testing.T) {
	t.Parallel()
	rows := []struct{ name, text, want string }{
		{"words", "Hello, world!", "Hello, world!"},
		{"empty", "", ""},
		{"NUL alone", "\x00", "\x00"},
		{"NUL inside", "a\x00b\x00\x00c", "a\x00b\x00\x00c"},
		{"added tokens", "<|im_start|>user\nHi<|im_end|>", "<|im_start|>user\nHi<|im_end|>"},
		{"half a character", "caf\xc3", "caf\ufffd"},
		{"surrogates", "\xed\xa0\x80!", "\ufffd\ufffd\ufffd!"},
		{"composed by NFC", "e\u0301", "\u00e9"},
		{"many bytes per character", "👩🏽‍🚀 你好 नमस्ते", "👩🏽‍🚀 你好 नमस्ते"},
	}
	for _, kind := range kinds {
		engine := newEngine(t, kind)
		for _, row := range rows {
			t.Run(kind.String()+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				ids, err := engine.AppendIDs(nil, []byte(row.text), false)
				require.NoError(t, err)
				text, err := engine.AppendText(nil, ids, false)
				require.NoError(t, err)
				require.Equal(t, row.want, string(text))
			})
		}
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			engine := newEngine(t, kind)
			// One id per byte needs the second round with a larger buffer.
			text := bytes.Repeat([]byte{0xff, 0x01}, 3000)
			alone, err := engine.AppendIDs(nil, text, false)
			require.NoError(t, err)
			require.Greater(t, len(alone), len(text)/2+16)
			ids, err := engine.AppendIDs([]uint32{7, 8}, text, false)
			require.NoError(t, err)
			require.Equal(t, append([]uint32{7, 8}, alone...), ids)
			decoded, err := engine.AppendText([]byte("before "), alone, false)
			require.NoError(t, err)
			require.Equal(t, "before "+strings.Repeat("\ufffd\x01", 3000), string(decoded))
		})
	}
}

func TestSpecialTokensAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			engine := newEngine(t, kind)
			ids, err := engine.AppendIDs(nil, []byte("<|im_start|>Hi<think><|im_end|>"), false)
			require.NoError(t, err)
			text, err := engine.AppendText(nil, ids, true)
			require.NoError(t, err)
			require.Equal(t, "Hi<think>", string(text))
		})
	}
}

func TestUnknownIDsAreSkipped(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			engine := newEngine(t, kind)
			ids, err := engine.AppendIDs(nil, []byte("Hi there"), false)
			require.NoError(t, err)
			text, err := engine.AppendText(nil, append(append([]uint32{1 << 31, 8000}, ids...), 0xffffffff), false)
			require.NoError(t, err)
			require.Equal(t, "Hi there", string(text))
		})
	}
}

func TestLoadRefusesWithTheEnginesWords(t *testing.T) {
	t.Parallel()
	rows := []struct{ name, json, says string }{
		{"nothing", "", ""},
		{"no JSON", "{", ""},
		{"no model", "{}", "issing"},
		{"NUL in the message", `{"version":"9\u0000"}`, ""},
		{"unknown model", `{"version":"1.0","model":{"type":"Nope\u0000","vocab":{}}}`, ""},
		{"endless nesting", strings.Repeat("[", 100_000), ""},
	}
	for _, kind := range kinds {
		for _, row := range rows {
			t.Run(kind.String()+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				_, err := hf.Load(kind, []byte(row.json), newThreads(t, 8))
				require.ErrorIs(t, err, hf.ErrLoad)
				require.ErrorContains(t, err, row.says)
			})
		}
	}
}

func TestTiktokenFile(t *testing.T) {
	t.Parallel()
	// Two bytes, their pair, and an added token.
	ranks := []byte("YQ== 0\nYg== 1\nYWI= 2\n")
	spec := []byte(`{"pattern":"\\p{L}+|.","added_tokens":[{"id":9,"content":"<x>","special":true}]}`)
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			engine, err := hf.LoadTiktoken(kind, ranks, spec, newThreads(t, 8))
			require.NoError(t, err)
			defer engine.Close()
			ids, err := engine.AppendIDs(nil, []byte("abba<x>"), false)
			require.NoError(t, err)
			require.Equal(t, []uint32{2, 1, 0, 9}, ids)
			text, err := engine.AppendText(nil, []uint32{2, 77, 9}, true)
			require.NoError(t, err)
			require.Equal(t, "ab", string(text))
			_, err = hf.LoadTiktoken(kind, []byte("YQ== x\n"), spec, newThreads(t, 8))
			require.ErrorIs(t, err, hf.ErrLoad)
			_, err = hf.LoadTiktoken(kind, ranks, []byte(`{"pattern":"(","added_tokens":[]}`), newThreads(t, 8))
			require.ErrorIs(t, err, hf.ErrLoad)
		})
	}
}

func TestClosedEngine(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		engine, err := hf.Load(kind, demo(t), newThreads(t, 8))
		require.NoError(t, err)
		engine.Close()
		engine.Close()
		_, err = engine.AppendIDs(nil, []byte("x"), false)
		require.ErrorIs(t, err, hf.ErrClosed)
		_, err = engine.AppendText(nil, []uint32{1}, false)
		require.ErrorIs(t, err, hf.ErrClosed)
		require.Zero(t, engine.VocabSize())
	}
}

func TestVocabSize(t *testing.T) {
	t.Parallel()
	require.Equal(t, 8000, newEngine(t, hf.Reference).VocabSize())
}

// TestThreadsAreBounded encodes from many locked threads at once: they get equal ids, and no more threads than the
// bound hold state. The bound is the process's, so this test does not run beside others.
func TestThreadsAreBounded(t *testing.T) {
	const limit = 4
	threads := hf.NewThreads(limit)
	engine, err := hf.Load(hf.Fast, demo(t), threads)
	require.NoError(t, err)
	before := hf.AdmittedThreads()
	want, err := engine.AppendIDs(nil, []byte("the same text on every thread"), false)
	require.NoError(t, err)
	var group sync.WaitGroup
	gate := make(chan struct{})
	for range 24 {
		group.Go(func() {
			runtime.LockOSThread()
			<-gate
			for range 50 {
				got, err := engine.AppendIDs(nil, []byte("the same text on every thread"), false)
				if err != nil || !slices.Equal(want, got) {
					t.Errorf("ids %v, error %v; want %v", got, err, want)
				}
			}
			runtime.UnlockOSThread()
		})
	}
	close(gate)
	group.Wait()
	require.LessOrEqual(t, hf.AdmittedThreads(), max(before, limit)+1)
	threads.Close()
	threads.Close()
	engine.Close()
}

func TestCallsNeedingAWorkerEndAfterClose(t *testing.T) {
	threads := hf.NewThreads(2)
	engine, err := hf.Load(hf.Fast, demo(t), threads)
	require.NoError(t, err)
	defer engine.Close()
	threads.Close()
	var refused atomic.Int32
	var group sync.WaitGroup
	gate := make(chan struct{})
	for range 16 {
		group.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			<-gate
			if _, err := engine.AppendIDs(nil, []byte("x"), false); err != nil {
				if !errors.Is(err, hf.ErrClosed) {
					t.Errorf("error %v, want ErrClosed", err)
				}
				refused.Add(1)
			}
		})
	}
	close(gate)
	group.Wait()
	t.Logf("%d of 16 calls were refused", refused.Load())
}
