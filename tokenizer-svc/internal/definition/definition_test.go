package definition_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/fixture"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

// plain is a tokenizer.json with one special and one ordinary added token; extra is put before the model.
func plain(extra string) string {
	return `{"version":"1.0",` + extra + `"added_tokens":[
		{"id":5,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
		{"id":6,"content":"<tag>","single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false}],
		"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`
}

func TestRefusedFormats(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		files map[string]string
		is    error
		says  string
	}{
		{"empty directory", nil, fs.ErrNotExist, "no tokenizer.json"},
		{"tekken", map[string]string{"tekken.json": "{}"}, definition.ErrUnsupported, "tekken"},
		{"SentencePiece", map[string]string{"tokenizer.model": "x"}, definition.ErrUnsupported, "SentencePiece"},
		{"SentencePiece with a version", map[string]string{"tokenizer.model.v3": "x"}, definition.ErrUnsupported, "SentencePiece"},
		{"vocab and merges", map[string]string{"vocab.json": "{}", "merges.txt": ""}, definition.ErrUnsupported, "merges.txt"},
		{"WordPiece", map[string]string{"vocab.txt": ""}, definition.ErrUnsupported, "WordPiece"},
		{"tiktoken of another family", map[string]string{"qwen.tiktoken": "YQ== 0"}, definition.ErrUnsupported, "tiktoken"},
		{"tiktoken.model of another class", map[string]string{
			"tiktoken.model": "YQ== 0", "tokenizer_config.json": `{"tokenizer_class":"OtherTokenizer"}`,
		}, definition.ErrUnsupported, "OtherTokenizer"},
		{"no JSON", map[string]string{"tokenizer.json": "{"}, nil, "parse tokenizer.json"},
		{"added tokens of another shape", map[string]string{"tokenizer.json": `{"added_tokens":{}}`}, nil, "added_tokens"},
		{"normalizer of another shape", map[string]string{"tokenizer.json": `{"normalizer":[]}`}, nil, "normalizer"},
		{"config no JSON", map[string]string{"tokenizer.json": "{}", "tokenizer_config.json": "["}, nil, "parse tokenizer_config.json"},
		{"id that is no number", map[string]string{
			"tokenizer.json": "{}", "tokenizer_config.json": `{"added_tokens_decoder":{"x":{"content":"y"}}}`,
		}, nil, `the key "x"`},
		{"model config no JSON", map[string]string{"tokenizer.json": "{}", "config.json": "["}, nil, "parse config.json"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := definition.Read(write(t, row.files))
			require.ErrorContains(t, err, row.says)
			if row.is != nil {
				require.ErrorIs(t, err, row.is)
			}
		})
	}
}

func TestTruncationAndPaddingAreReset(t *testing.T) {
	t.Parallel()
	def, err := definition.Read(write(t, map[string]string{
		"tokenizer.json": plain(`"truncation":{"max_length":3},"padding":{"pad_id":0},"unknown":[1,{"a":1.0}],`),
	}))
	require.NoError(t, err)
	var parts map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(def.JSON, &parts))
	require.Equal(t, "null", string(parts["truncation"]))
	require.Equal(t, "null", string(parts["padding"]))
	require.Equal(t, `[1,{"a":1.0}]`, string(parts["unknown"]), "all else stays as it is")
	require.Contains(t, parts, "model")
}

func TestTokensOfTheConfigJoin(t *testing.T) {
	t.Parallel()
	def, err := definition.Read(write(t, map[string]string{
		"tokenizer.json": plain(""),
		"tokenizer_config.json": `{"added_tokens_decoder":{
			"9":{"content":"<late>","special":true},"5":{"content":"<s>","special":true},"7":{"content":"<x>"},"8":{"content":""}}}`,
		"config.json": `{"text_config":{"vocab_size":77}}`,
	}))
	require.NoError(t, err)
	var names []string
	for _, token := range def.Added {
		names = append(names, token.Content)
	}
	require.Equal(t, []string{"<s>", "<tag>", "<x>", "<late>"}, names)
	require.EqualValues(t, 9, def.Added[3].ID)
	require.Contains(t, string(def.JSON), "late")
	require.Equal(t, 77, def.ModelVocabulary)
}

func TestCutRules(t *testing.T) {
	t.Parallel()
	token := func(content string, flags ...string) string {
		entry := map[string]any{"id": 1, "content": content}
		for _, flag := range flags {
			entry[flag] = true
		}
		data, err := json.Marshal(entry)
		require.NoError(t, err)
		return string(data)
	}
	raw := func(after bool, contents ...string) []definition.CutToken {
		var out []definition.CutToken
		for _, content := range contents {
			out = append(out, definition.CutToken{Content: content, After: after})
		}
		return out
	}
	rows := []struct {
		name, tokens, rest string
		want               definition.Cut
		refused            string
	}{
		{
			name: "special and ordinary, no normalizer", tokens: token("<a>") + "," + token("<b>", "normalized"),
			want: definition.Cut{Raw: raw(true, "<a>"), Second: raw(true, "<b>")},
		},
		{
			name: "empty sequence is no normalizer", tokens: token("<b>", "normalized"), rest: `,"normalizer":{"type":"Sequence","normalizers":[]}`,
			want: definition.Cut{Second: raw(true, "<b>")},
		},
		{
			name: "normalizer hides normalized tokens", tokens: token("<a>") + "," + token("<b>", "normalized"), rest: `,"normalizer":{"type":"NFC"}`,
			want: definition.Cut{Raw: raw(true, "<a>")},
		},
		{
			name: "stripping token is matched but not cut at", tokens: token("<a>", "rstrip") + "," + token("<b>", "lstrip"),
			want: definition.Cut{Raw: append(raw(false, "<a>"), raw(true, "<b>")...)},
		},
		{name: "whole words", tokens: token("<a>") + "," + token("w", "single_word"), refused: "whole words"},
		{name: "stripping beside a token of space", tokens: token("<a>", "rstrip") + "," + token(" b"), refused: "starts with space"},
		{name: "no tokens", refused: "no added token"},
		{
			name: "first word apart", tokens: token("<a>"), rest: `,"pre_tokenizer":{"type":"Metaspace","prepend_scheme" : "first"}`,
			refused: "first word",
		},
		{
			name: "first word apart in a sequence", tokens: token("<a>"),
			rest: `,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Metaspace","prepend_scheme":"first"}]}`, refused: "first word",
		},
		{
			name: "decoder may say first", tokens: token("<a>"), rest: `,"decoder":{"type":"Metaspace","prepend_scheme":"first"}`,
			want: definition.Cut{Raw: raw(true, "<a>")},
		},
		{name: "dropout", tokens: token("<a>"), rest: `,"model":{"dropout":0.1}`, refused: "at random"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			def, err := definition.Read(write(t, map[string]string{"tokenizer.json": `{"added_tokens":[` + row.tokens + "]" + row.rest + "}"}))
			require.NoError(t, err)
			if row.refused != "" {
				require.Contains(t, def.Cut.Refused, row.refused)
				return
			}
			require.Empty(t, cmp.Diff(row.want, def.Cut))
		})
	}
}

func TestKimi(t *testing.T) {
	t.Parallel()
	def, err := definition.Read(write(t, map[string]string{
		"tiktoken.model": "YQ== 0\nYg== 1\n\nYWI= 2\n",
		"tokenizer_config.json": `{"tokenizer_class":"TikTokenTokenizer",
			"auto_map":{"AutoTokenizer":["tokenization_kimi.TikTokenTokenizer",null]},
			"added_tokens_decoder":{"1":{"content":"inside the ranks"},"4":{"content":"<|im_end|>","special":true},
			"5":{"content":"<think>"},"300":{"content":"beyond the window"}}}`,
	}))
	require.NoError(t, err)
	require.Nil(t, def.JSON)
	require.Len(t, def.Added, 256)
	require.Equal(t, definition.AddedToken{ID: 3, Content: "<|reserved_token_3|>", Special: true}, def.Added[0])
	require.Equal(t, definition.AddedToken{ID: 4, Content: "<|im_end|>", Special: true}, def.Added[1])
	require.Equal(t, definition.AddedToken{ID: 5, Content: "<think>"}, def.Added[2])
	require.EqualValues(t, 258, def.Added[255].ID)
	require.Empty(t, def.Cut.Refused)
	require.True(t, strings.Contains(string(def.Spec), `"pattern":"kimi"`))
}

func TestDemoModel(t *testing.T) {
	t.Parallel()
	dir := fixture.Demo(t)
	info, err := os.Stat(filepath.Join(dir, "tokenizer.json"))
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(700<<10))
	def, err := definition.Read(dir)
	require.NoError(t, err)
	require.Equal(t, 8000, def.ModelVocabulary)
	require.Len(t, def.Added, 11)
	data, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	require.NoError(t, err)
	template, err := os.ReadFile(filepath.Join(dir, "train", "chat_template.jinja"))
	require.NoError(t, err)
	var config struct {
		Template string                           `json:"chat_template"`
		Added    map[string]definition.AddedToken `json:"added_tokens_decoder"`
	}
	require.NoError(t, json.Unmarshal(data, &config))
	require.Equal(t, strings.TrimRight(string(template), "\n"), config.Template)
	require.Len(t, config.Added, len(def.Added))
}
