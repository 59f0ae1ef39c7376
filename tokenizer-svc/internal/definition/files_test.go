package definition_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
)

func TestFilesAreThoseThatCount(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"tokenizer.json", "tokenizer_config.json", "config.json", "tiktoken.model", "chat_template.jinja",
	}, definition.Files())
}

func TestTemplateOfTheModel(t *testing.T) {
	t.Parallel()
	const tokenizer = `{"model":{}}`
	rows := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"none", nil, ""},
		{"in the configuration", map[string]string{"tokenizer_config.json": `{"chat_template":"A"}`}, "A"},
		{"a list", map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"x","template":"B"}]}`}, "B"},
		{"an odd one", map[string]string{"tokenizer_config.json": `{"chat_template":5}`}, ""},
		{"a file beats it", map[string]string{"tokenizer_config.json": `{"chat_template":"A"}`, "chat_template.jinja": "J"}, "J"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"tokenizer.json": tokenizer}
			for name, text := range row.files {
				files[name] = text
			}
			def, err := definition.Read(write(t, files))
			require.NoError(t, err)
			require.Equal(t, row.want, def.Template)
		})
	}
}

// TestHugeFilesAreNotRead makes sparse files: only their size is large.
func TestHugeFilesAreNotRead(t *testing.T) {
	t.Parallel()
	for _, name := range definition.Files() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"tokenizer.json": plain("")}
			if name == "tiktoken.model" {
				files = nil
			}
			dir := write(t, files)
			file, err := os.Create(filepath.Join(dir, name))
			require.NoError(t, err)
			require.NoError(t, file.Truncate(definition.MaxFileBytes+1))
			require.NoError(t, file.Close())
			_, err = definition.Read(dir)
			require.ErrorContains(t, err, name+" has 268435457 bytes")
		})
	}
}

func TestVocabularyOfTheModel(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, config string
		want         int
	}{
		{"no file", "", 0},
		{"no size", `{"model_type":"x"}`, 0},
		{"at the top", `{"vocab_size":151936}`, 151936},
		{"of the text part", `{"text_config":{"vocab_size":262208}}`, 262208},
		{"in both", `{"vocab_size":10,"text_config":{"vocab_size":20}}`, 20},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"tokenizer.json": plain("")}
			if row.config != "" {
				files["config.json"] = row.config
			}
			def, err := definition.Read(write(t, files))
			require.NoError(t, err)
			require.Equal(t, row.want, def.ModelVocabulary)
		})
	}
}

func TestWhichClassIsKimis(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, config string
		known        bool
	}{
		{"class and module", `{"tokenizer_class":"TikTokenTokenizer","auto_map":{"AutoTokenizer":["tokenization_kimi.TikTokenTokenizer",null]}}`, true},
		{"module as a string", `{"tokenizer_class":"TikTokenTokenizer","auto_map":{"AutoTokenizer":"tokenization_kimi.TikTokenTokenizer"}}`, true},
		{"class alone", `{"tokenizer_class":"TikTokenTokenizer"}`, true},
		{"another module", `{"tokenizer_class":"TikTokenTokenizer","auto_map":{"AutoTokenizer":["other.TikTokenTokenizer",null]}}`, false},
		{"another class", `{"tokenizer_class":"QWenTokenizer"}`, false},
		{"null in the map", `{"tokenizer_class":"TikTokenTokenizer","auto_map":{"AutoTokenizer":null}}`, true},
		{"empty list in the map", `{"tokenizer_class":"TikTokenTokenizer","auto_map":{"AutoTokenizer":[]}}`, true},
		{"no config", ``, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"tiktoken.model": "YQ== 0\n"}
			if row.config != "" {
				files["tokenizer_config.json"] = row.config
			}
			_, err := definition.Read(write(t, files))
			if row.known {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, definition.ErrUnsupported)
		})
	}
}

// TestTokenizerJSONWins where a folder has several formats, as many do.
func TestTokenizerJSONWins(t *testing.T) {
	t.Parallel()
	def, err := definition.Read(write(t, map[string]string{
		"tokenizer.json": plain(""), "tiktoken.model": "YQ== 0\n", "tokenizer.model": "x", "tekken.json": "{}", "vocab.json": "{}",
	}))
	require.NoError(t, err)
	require.NotNil(t, def.JSON)
	require.Nil(t, def.Ranks)
}
