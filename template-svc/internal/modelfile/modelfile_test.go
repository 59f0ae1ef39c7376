package modelfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/chat"
)

// folder writes files below a new directory and gives its path.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func TestLoadTemplates(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		files map[string]string
		want  map[string]string
	}{
		{
			"text in the config",
			map[string]string{"tokenizer_config.json": `{"chat_template": "A"}`},
			map[string]string{"default": "A"},
		},
		{
			"named list in the config",
			map[string]string{
				"tokenizer_config.json": `{"chat_template": [{"name":"default","template":"A"},{"name":"tool_use","template":"B"}]}`,
			},
			map[string]string{"default": "A", "tool_use": "B"},
		},
		{
			"a jinja file beats the config",
			map[string]string{"tokenizer_config.json": `{"chat_template": "A"}`, "chat_template.jinja": "J\n"},
			map[string]string{"default": "J\n"},
		},
		{
			"additional templates beside the jinja file",
			map[string]string{
				"tokenizer_config.json": `{}`, "chat_template.jinja": "J",
				"additional_chat_templates/tool_use.jinja": "T",
			},
			map[string]string{"default": "J", "tool_use": "T"},
		},
		{
			"a processor's template is the last resort",
			map[string]string{"tokenizer_config.json": `{}`, "chat_template.json": `{"chat_template": "P"}`},
			map[string]string{"default": "P"},
		},
		{
			"null in the config counts as absent",
			map[string]string{"tokenizer_config.json": `{"chat_template": null}`, "chat_template.json": `{"chat_template": "P"}`},
			map[string]string{"default": "P"},
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := Load(folder(t, row.files), "m")
			require.NoError(t, err)
			require.Equal(t, row.want, got.Templates)
			require.Empty(t, got.Unsupported)
		})
	}
}

// TestProcessorTemplates: a multimodal model's processor is asked first, where vLLM finds one.
func TestProcessorTemplates(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		files map[string]string
		want  map[string]string
	}{
		{
			"beside the tokenizer's",
			map[string]string{"chat_template.json": `{"chat_template":"P"}`, "preprocessor_config.json": `{}`},
			map[string]string{"default": "A", chat.ProcessorTemplate: "P"},
		},
		{
			"the newer name of a processor's file",
			map[string]string{"chat_template.json": `{"chat_template":"P"}`, "processor_config.json": `{}`},
			map[string]string{"default": "A", chat.ProcessorTemplate: "P"},
		},
		{
			"a model without processor",
			map[string]string{"chat_template.json": `{"chat_template":"P"}`},
			map[string]string{"default": "A"},
		},
		{
			"a list is no processor's",
			map[string]string{
				"chat_template.json": `{"chat_template":[{"name":"default","template":"P"}]}`, "preprocessor_config.json": `{}`,
			},
			map[string]string{"default": "A"},
		},
		{
			"one file for both",
			map[string]string{
				"chat_template.json": `{"chat_template":"P"}`, "preprocessor_config.json": `{}`, "chat_template.jinja": "J",
			},
			map[string]string{"default": "J"},
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.files["tokenizer_config.json"] = `{"chat_template": "A"}`
			got, err := Load(folder(t, row.files), "m")
			require.NoError(t, err)
			require.Equal(t, row.want, got.Sources())
		})
	}
}

func TestArchitecture(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		`{"architectures":["Qwen2VLForConditionalGeneration","Other"]}`: "Qwen2VLForConditionalGeneration",
		`{"architectures":[]}`: "",
		`{}`:                   "",
	} {
		got, err := Load(folder(t, map[string]string{"tokenizer_config.json": `{"chat_template":"A"}`, "config.json": config}), "m")
		require.NoError(t, err)
		require.Equal(t, want, got.Architecture)
	}
}

func TestLoadSpecialTokens(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"tokenizer_config.json":   `{"chat_template":"A","bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false},"pad_token":null}`,
		"special_tokens_map.json": `{"bos_token":"ignored","unk_token":{"content":"<unk>"}}`,
	})
	got, err := Load(dir, "m")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}, got.SpecialTokens)
}

func TestResolveFindsCacheLayouts(t *testing.T) {
	t.Parallel()
	cache := func(prefix string, refs bool) map[string]string {
		files := map[string]string{prefix + "snapshots/abc123/tokenizer_config.json": `{"chat_template":"C"}`}
		if refs {
			files[prefix+"refs/main"] = "abc123\n"
		}
		return files
	}
	rows := []struct {
		name  string
		files map[string]string
	}{
		{"the folder itself", map[string]string{"tokenizer_config.json": `{"chat_template":"C"}`}},
		{"a model's cache folder", cache("", true)},
		{"a cache folder without refs and one snapshot", cache("", false)},
		{"a cache root", cache("models--acme--tiny/", true)},
		{"a home of caches", cache("hub/models--acme--tiny/", true)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := Load(folder(t, row.files), "acme/tiny")
			require.NoError(t, err)
			require.Equal(t, "C", got.Templates["default"])
		})
	}
}

func TestLoadNamesWhatIsNotJinja(t *testing.T) {
	t.Parallel()
	base := `{"chat_template":"A"}`
	rows := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"Mistral with tekken", map[string]string{"tekken.json": `{}`}, "mistral-common"},
		{"Mistral with a versioned model", map[string]string{"tokenizer.model.v3": ""}, "mistral-common"},
		{"DeepSeek V3.2", map[string]string{"config.json": `{"architectures":["DeepseekV32ForCausalLM"]}`}, "V3.2"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.files["tokenizer_config.json"] = base
			got, err := Load(folder(t, row.files), "m")
			require.NoError(t, err)
			require.Contains(t, got.Unsupported, row.want)
		})
	}
	got, err := Load(folder(t, map[string]string{"tokenizer_config.json": `{}`}), "m")
	require.NoError(t, err)
	require.Contains(t, got.Unsupported, "no chat template")
}

func TestLoadKnowsHarmony(t *testing.T) {
	t.Parallel()
	for _, config := range []string{`{"model_type":"gpt_oss"}`, `{"architectures":["GptOssForCausalLM"]}`} {
		for _, tokenizer := range []string{`{}`, `{"chat_template":"A"}`} {
			got, err := Load(folder(t, map[string]string{"tokenizer_config.json": tokenizer, "config.json": config}), "m")
			require.NoError(t, err)
			require.True(t, got.Harmony)
			require.Empty(t, got.Unsupported)
		}
	}
	got, err := Load(folder(t, map[string]string{"tokenizer_config.json": `{"chat_template":"A"}`}), "m")
	require.NoError(t, err)
	require.False(t, got.Harmony)
}

func TestParseWhatAWorkerTells(t *testing.T) {
	t.Parallel()
	got, err := Parse([]byte(`{"bos_token":"<s>","eos_token":{"content":"</s>"},"chat_template":[{"name":"default","template":"A"},`+
		`{"name":"tool_use","template":"B"}]}`), "LlavaForConditionalGeneration")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"default": "A", "tool_use": "B"}, got.Sources())
	require.Equal(t, map[string]string{"bos_token": "<s>", "eos_token": "</s>"}, got.SpecialTokens)
	require.Equal(t, "LlavaForConditionalGeneration", got.Architecture)
	rows := []struct{ name, info, architecture, unsupported, err string }{
		{"no template", `{}`, "", "no chat template", ""},
		{"a format of its own", `{"chat_template":"A"}`, "KimiK3ForCausalLM", "Kimi K3", ""},
		{"no JSON", `{`, "", "", "description"},
		{"a template of a wrong type", `{"chat_template":5}`, "", "", "chat_template"},
	}
	for _, row := range rows {
		got, err := Parse([]byte(row.info), row.architecture)
		if row.err != "" {
			require.ErrorContains(t, err, row.err, row.name)
			continue
		}
		require.NoError(t, err, row.name)
		require.Contains(t, got.Unsupported, row.unsupported, row.name)
	}
}

func TestLoadRefusesDamage(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"no folder files", map[string]string{"README.md": ""}, "no tokenizer_config.json"},
		{"broken JSON", map[string]string{"tokenizer_config.json": `{`}, "tokenizer_config.json"},
		{"template of a wrong type", map[string]string{"tokenizer_config.json": `{"chat_template": 5}`}, "chat_template"},
		{
			"a file beyond the bound",
			map[string]string{"tokenizer_config.json": `{"x":"` + strings.Repeat("x", maxFileBytes) + `"}`},
			"larger than",
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(folder(t, row.files), "m")
			require.ErrorContains(t, err, row.want)
		})
	}
	_, err := Load(filepath.Join(t.TempDir(), "nowhere"), "m")
	require.ErrorContains(t, err, "model folder")
}
