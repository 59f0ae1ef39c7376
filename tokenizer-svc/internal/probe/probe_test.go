package probe_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/probe"
)

func TestTextsAreTheSameEveryTime(t *testing.T) {
	t.Parallel()
	added := []string{"<|im_start|>", "<|im_end|>"}
	require.Equal(t, probe.Texts(added), probe.Texts(added))
}

func TestTextsHaveWhatBreaksTokenizers(t *testing.T) {
	t.Parallel()
	texts := probe.Texts(nil)
	holds := func(test func(text []byte) bool) bool { return slices.ContainsFunc(texts, test) }
	script := func(table *unicode.RangeTable) func([]byte) bool {
		return func(text []byte) bool {
			return bytes.ContainsFunc(text, func(r rune) bool { return unicode.Is(table, r) })
		}
	}
	rows := []struct {
		name string
		test func(text []byte) bool
	}{
		{"nothing", func(text []byte) bool { return len(text) == 0 }},
		{"NUL", func(text []byte) bool { return bytes.Contains(text, []byte{0}) }},
		{"broken UTF-8", func(text []byte) bool { return !utf8.Valid(text) }},
		{"marks that NFC composes", func(text []byte) bool { return bytes.Contains(text, []byte("e\u0301")) }},
		{"a long run of spaces", func(text []byte) bool { return bytes.Contains(text, bytes.Repeat([]byte(" "), 500)) }},
		{"a long text", func(text []byte) bool { return len(text) > 10_000 }},
		{"carriage returns", func(text []byte) bool { return bytes.Contains(text, []byte("\r\n")) }},
		{"joined emoji", func(text []byte) bool { return bytes.Contains(text, []byte("\u200d")) }},
		{"contractions", func(text []byte) bool { return bytes.Contains(text, []byte("'ve")) }},
		{"code", func(text []byte) bool { return bytes.Contains(text, []byte("func (s *Server)")) }},
		{"JSON", func(text []byte) bool { return bytes.Contains(text, []byte(`"arguments": {`)) }},
		{"Han", script(unicode.Han)},
		{"Hangul", script(unicode.Hangul)},
		{"Hiragana", script(unicode.Hiragana)},
		{"Arabic", script(unicode.Arabic)},
		{"Hebrew", script(unicode.Hebrew)},
		{"Cyrillic", script(unicode.Cyrillic)},
		{"Greek", script(unicode.Greek)},
		{"Devanagari", script(unicode.Devanagari)},
		{"Thai", script(unicode.Thai)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.True(t, holds(row.test))
		})
	}
}

func TestAddedTokensAreWoven(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		count int
		all   bool
	}{
		{"none", 0, true},
		{"one", 1, true},
		{"a chat model's", 26, true},
		{"as many as are used", 96, true},
		{"DeepSeek's", 818, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var added []string
			for i := range row.count {
				added = append(added, fmt.Sprintf("<|added_%d|>", i))
			}
			texts := probe.Texts(added)
			found := 0
			for _, token := range added {
				inText, inWord := false, false
				for _, text := range texts {
					inText = inText || bytes.Contains(text, []byte(token+"user\n"))
					inWord = inWord || bytes.Contains(text, []byte("word"+token+"word"))
				}
				if inText && inWord {
					found++
				}
			}
			if row.all {
				require.Equal(t, row.count, found)
			} else {
				require.Equal(t, 96, found)
			}
			size := 0
			for _, text := range texts {
				size += len(text)
			}
			require.Less(t, size, 200_000, "the check at load must stay cheap")
		})
	}
}

func TestBrokenTokensAreThereToo(t *testing.T) {
	t.Parallel()
	texts := probe.Texts([]string{"<|one|>", "<|two|>"})
	require.True(t, slices.ContainsFunc(texts, func(text []byte) bool {
		return strings.Contains(string(text), "<|one|<|two|>")
	}))
}
