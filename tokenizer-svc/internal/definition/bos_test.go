package definition_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
)

// tokens is a tokenizer.json with a BOS and an EOS.
const tokens = `{"added_tokens":[{"id":7,"content":"<s>","special":true},{"id":8,"content":"</s>","special":true}],` +
	`"post_processor":{"type":"ByteLevel"},"model":{}}`

func TestUseTransformers4(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, config string
		want         []string // of the single template; nil leaves the file's own
	}{
		{"BOS by default", `{"tokenizer_class":"LlamaTokenizerFast","bos_token":"<s>"}`, []string{"<s>", "A"}},
		{"BOS as an object", `{"tokenizer_class":"LlamaTokenizer","bos_token":{"content":"<s>"},"add_bos_token":true}`, []string{"<s>", "A"}},
		{"no BOS", `{"tokenizer_class":"LlamaTokenizerFast","bos_token":"<s>","add_bos_token":false}`, []string{"A"}},
		{
			"both", `{"tokenizer_class":"LlamaTokenizerFast","bos_token":"<s>","eos_token":"</s>","add_eos_token":true}`,
			[]string{"<s>", "A", "</s>"},
		},
		{"no such token", `{"tokenizer_class":"LlamaTokenizerFast","bos_token":"<bos>"}`, []string{"A"}},
		{"null token", `{"tokenizer_class":"LlamaTokenizerFast","bos_token":null}`, []string{"A"}},
		{"another class", `{"tokenizer_class":"PreTrainedTokenizerFast","bos_token":"<s>"}`, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, map[string]string{"tokenizer.json": tokens, "tokenizer_config.json": row.config})
			def, err := definition.Read(dir)
			require.NoError(t, err)
			require.NoError(t, def.UseTransformers4(dir))
			var got struct {
				Post struct {
					Type   string
					Single []map[string]struct{ ID string }
					Tokens map[string]struct{ IDs []uint32 } `json:"special_tokens"`
				} `json:"post_processor"`
			}
			require.NoError(t, json.Unmarshal(def.JSON, &got))
			if row.want == nil {
				require.Equal(t, "ByteLevel", got.Post.Type)
				return
			}
			var single []string
			for _, piece := range got.Post.Single {
				for kind, p := range piece {
					single = append(single, p.ID)
					if kind == "SpecialToken" {
						require.Len(t, got.Post.Tokens[p.ID].IDs, 1)
					}
				}
			}
			require.Equal(t, row.want, single)
		})
	}
}

func TestUseTransformers4LeavesWhatHasNoClass(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"tokenizer.json": tokens})
	def, err := definition.Read(dir)
	require.NoError(t, err)
	before := string(def.JSON)
	require.NoError(t, def.UseTransformers4(dir))
	require.Equal(t, before, string(def.JSON))
	require.NoError(t, (&definition.Definition{Ranks: []byte("x")}).UseTransformers4(dir), "a tiktoken model has no post-processor")
}
