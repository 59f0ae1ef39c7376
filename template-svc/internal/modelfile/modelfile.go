// Package modelfile reads from a model's folder what decides its prompts: chat templates and named special tokens.
//
// The folder is a plain model directory, or a Hugging Face cache folder (models--org--name with snapshots/), or a
// cache root that holds such folders. As transformers does, chat_template.jinja with
// additional_chat_templates/*.jinja beats the chat_template of tokenizer_config.json, and chat_template.json (written
// for processors) is the last resort.
package modelfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/chat"
)

// maxFileBytes bounds each file that is read; the largest real tokenizer_config.json is under 1 MiB.
const maxFileBytes = 16 << 20

// additionalFolder holds named templates beside chat_template.jinja.
const additionalFolder = "additional_chat_templates"

// Files is what a model's folder says about its prompts.
type Files struct {
	// Dir is the folder that was read, after the cache layout was resolved.
	Dir string
	// Templates are the sources by name; the plain one is "default".
	Templates map[string]string
	// Processor is the template of a multimodal processor (chat_template.json), empty where there is none.
	Processor string
	// Architecture is the first of config.json's architectures, empty where there is none.
	Architecture string
	// Harmony is true for gpt-oss models: vLLM writes OpenAI's Harmony format for them, whatever their templates say.
	Harmony bool
	// SpecialTokens are the named ones (bos_token, …) in the order of Names.
	SpecialTokens map[string]string
	// Unsupported says why the model does not use Jinja; empty when it does.
	Unsupported string
}

// SpecialNames lists the names of special tokens that transformers hands to templates.
func SpecialNames() []string {
	return []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}
}

// Load reads the folder of a model. model is its id, used to find it in a cache root.
func Load(path, model string) (*Files, error) {
	dir, err := Resolve(path, model)
	if err != nil {
		return nil, err
	}
	f := &Files{Dir: dir, Templates: map[string]string{}, SpecialTokens: map[string]string{}}
	if err := f.examine(dir); err != nil {
		return nil, err
	}
	var config tokenizerConfig
	if err := readJSON(filepath.Join(dir, "tokenizer_config.json"), &config); err != nil {
		return nil, err
	}
	if err := f.special(dir, config); err != nil {
		return nil, err
	}
	if err := f.templates(dir, config); err != nil {
		return nil, err
	}
	if len(f.Templates) == 0 && f.Unsupported == "" && !f.Harmony {
		f.Unsupported = "the model's folder has no chat template"
	}
	return f, nil
}

// Sources gives the templates by the names under which requests are matched, a processor's among them.
func (f *Files) Sources() map[string]string {
	if f.Processor == "" {
		return f.Templates
	}
	out := maps.Clone(f.Templates)
	out[chat.ProcessorTemplate] = f.Processor
	return out
}

// Parse reads what a worker tells of its tokenizer instead of a folder. architecture is as in config.json, which the
// worker does not tell; empty is taken for a model of text that uses Jinja.
func Parse(info []byte, architecture string) (*Files, error) {
	f := &Files{Templates: map[string]string{}, SpecialTokens: map[string]string{}}
	f.classify("", []string{architecture})
	var config tokenizerConfig
	if err := json.Unmarshal(info, &config); err != nil {
		return nil, fmt.Errorf("read the tokenizer's description: %w", err)
	}
	f.named(config.Extra, nil)
	if err := f.fromConfig(config.ChatTemplate); err != nil {
		return nil, err
	}
	if len(f.Templates) == 0 && f.Unsupported == "" && !f.Harmony {
		f.Unsupported = "the worker's model has no chat template"
	}
	return f, nil
}

// Resolve finds the folder with the model's files.
func Resolve(path, model string) (string, error) {
	cached := "models--" + strings.ReplaceAll(model, "/", "--")
	for _, dir := range []string{path, filepath.Join(path, cached), filepath.Join(path, "hub", cached)} {
		if found, ok := snapshot(dir); ok {
			return found, nil
		}
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("model folder: %w", err)
	}
	return "", fmt.Errorf("no tokenizer_config.json in %q, nor a cache folder of %q below it", path, model)
}

// snapshot gives dir itself if it holds the files, or the snapshot that a cache folder's refs/main names.
func snapshot(dir string) (string, bool) {
	if exists(filepath.Join(dir, "tokenizer_config.json")) {
		return dir, true
	}
	revision, err := os.ReadFile(filepath.Join(dir, "refs", "main"))
	if err == nil {
		candidate := filepath.Join(dir, "snapshots", filepath.Base(strings.TrimSpace(string(revision))))
		return candidate, exists(filepath.Join(candidate, "tokenizer_config.json"))
	}
	entries, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	if err != nil || len(entries) != 1 {
		return "", false
	}
	candidate := filepath.Join(dir, "snapshots", entries[0].Name())
	return candidate, exists(filepath.Join(candidate, "tokenizer_config.json"))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// tokenizerConfig is the part of tokenizer_config.json in use.
type tokenizerConfig struct {
	ChatTemplate json.RawMessage            `json:"chat_template"`
	Extra        map[string]json.RawMessage `json:"-"`
}

// UnmarshalJSON keeps all members, since special tokens are members of their own names.
func (c *tokenizerConfig) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &c.Extra); err != nil {
		return err
	}
	c.ChatTemplate = c.Extra["chat_template"]
	return nil
}

// special reads the named special tokens: text, or an object whose content is the text. special_tokens_map.json
// fills what tokenizer_config.json leaves out.
func (f *Files) special(dir string, config tokenizerConfig) error {
	var fallback map[string]json.RawMessage
	path := filepath.Join(dir, "special_tokens_map.json")
	if err := readJSON(path, &fallback); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.named(config.Extra, fallback)
	return nil
}

// named takes each special token from the first source that has it.
func (f *Files) named(sources ...map[string]json.RawMessage) {
	for _, name := range SpecialNames() {
		for _, source := range sources {
			if text, ok := tokenText(source[name]); ok {
				f.SpecialTokens[name] = text
				break
			}
		}
	}
}

// tokenText reads a special token in either of its two forms.
func tokenText(raw json.RawMessage) (string, bool) {
	var text *string
	if len(raw) == 0 {
		return "", false
	}
	if json.Unmarshal(raw, &text) == nil {
		if text == nil {
			return "", false
		}
		return *text, true
	}
	var object struct {
		Content *string `json:"content"`
	}
	if json.Unmarshal(raw, &object) != nil || object.Content == nil {
		return "", false
	}
	return *object.Content, true
}

// templates reads the chat templates in transformers' order of preference.
func (f *Files) templates(dir string, config tokenizerConfig) error {
	if source, err := readText(filepath.Join(dir, "chat_template.jinja")); err == nil {
		f.Templates["default"] = source
		return f.additional(filepath.Join(dir, additionalFolder))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := f.fromConfig(config.ChatTemplate); err != nil {
		return err
	}
	return f.processor(dir)
}

// processor reads chat_template.json. vLLM asks the processor before the tokenizer where the model has one, save for
// requests with tools; the tokenizer's own template serves those.
func (f *Files) processor(dir string) error {
	var processor struct {
		ChatTemplate json.RawMessage `json:"chat_template"`
	}
	err := readJSON(filepath.Join(dir, "chat_template.json"), &processor)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(f.Templates) == 0 {
		return f.fromConfig(processor.ChatTemplate)
	}
	if exists(filepath.Join(dir, "preprocessor_config.json")) || exists(filepath.Join(dir, "processor_config.json")) {
		_ = json.Unmarshal(processor.ChatTemplate, &f.Processor) // a list of templates is no processor's one template
	}
	return nil
}

// additional reads the named templates beside chat_template.jinja.
func (f *Files) additional(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.jinja"))
	if err != nil {
		return fmt.Errorf("list %q: %w", dir, err)
	}
	for _, path := range names {
		source, err := readText(path)
		if err != nil {
			return err
		}
		f.Templates[strings.TrimSuffix(filepath.Base(path), ".jinja")] = source
	}
	return nil
}

// fromConfig reads chat_template as text or as a list of named templates.
func (f *Files) fromConfig(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		f.Templates["default"] = text
		return nil
	}
	var list []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("chat_template is neither text nor a list of named templates: %w", err)
	}
	for _, t := range list {
		f.Templates[t.Name] = t.Template
	}
	return nil
}

func readJSON(path string, into any) error {
	text, err := readText(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("read %q: %w", filepath.Base(path), err)
	}
	return nil
}

// readText reads a file of bounded size.
func readText(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return "", fmt.Errorf("read %q: %w", filepath.Base(path), err)
	}
	if len(data) > maxFileBytes {
		return "", fmt.Errorf("%q is larger than %d bytes", filepath.Base(path), maxFileBytes)
	}
	return string(data), nil
}
