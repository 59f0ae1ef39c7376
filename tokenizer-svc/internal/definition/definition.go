// Package definition reads a model directory in Hugging Face layout and makes of it what the engines load: a
// tokenizer.json freed of settings that transformers resets, or a tiktoken ranks file with its pattern and added
// tokens. A format that kvmesh cannot encode exactly is refused by name.
package definition

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrUnsupported wraps the name of a format that is refused.
var ErrUnsupported = errors.New("tokenizer format is not supported")

// MaxFileBytes bounds each file of a model directory. The largest tokenizer.json known (Gemma 3) has 34 MB.
const MaxFileBytes = 256 << 20

// Definition is one tokenizer ready to load. Either JSON or Ranks is set.
type Definition struct {
	// JSON is a tokenizer.json without truncation and padding, with the added tokens of tokenizer_config.json.
	JSON []byte
	// Ranks and Spec are a tiktoken model: its ranks file, and pattern and added tokens as JSON.
	Ranks, Spec []byte
	// Added holds the added tokens in file order.
	Added []AddedToken
	// Template is the model's chat template, for texts to compare engines on.
	Template string
	// Cut says whether text may be cut after added tokens.
	Cut Cut
	// ModelVocabulary is vocab_size of config.json: workers accept ids below it even where the tokenizer has none.
	// 0 when unknown.
	ModelVocabulary int
}

// AddedToken is an entry of added_tokens, with the names of the file.
type AddedToken struct {
	ID         uint32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// Names of the files read, in Hugging Face layout.
const (
	tokenizerFile = "tokenizer.json"
	configFile    = "tokenizer_config.json"
	modelFile     = "config.json"
	tiktokenFile  = "tiktoken.model"
	templateFile  = "chat_template.jinja"
)

// Files lists the names that Read looks at; a change of one of them is a change of the model.
func Files() []string {
	return []string{tokenizerFile, configFile, modelFile, tiktokenFile, templateFile}
}

// Read reads the directory. Errors wrap ErrUnsupported for a refused format, fs.ErrNotExist where nothing is found.
func Read(dir string) (*Definition, error) {
	config, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	def, err := readVocabulary(dir, config)
	if err != nil {
		return nil, err
	}
	if def.ModelVocabulary, err = readModelVocabulary(dir); err != nil {
		return nil, err
	}
	if def.Template, err = readTemplate(dir); err != nil {
		return nil, err
	}
	return def, nil
}

// readVocabulary takes the first of the formats that the folder has: a tokenizer.json wins over all others, as in
// transformers.
func readVocabulary(dir string, config tokenizerConfig) (*Definition, error) {
	data, err := readFile(dir, tokenizerFile)
	if err == nil {
		return fromJSON(data, config)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ranks, err := readFile(dir, tiktokenFile)
	if err == nil {
		return fromTiktoken(ranks, config)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return nil, refuse(dir)
}

// refused names formats by the file that gives them away.
var refused = [...]struct{ pattern, name string }{
	{"tekken.json", "Mistral's tekken.json"},
	{"*.tiktoken", "a tiktoken file without a known pattern"},
	{"tokenizer.model*", "a SentencePiece model without tokenizer.json (transformers can convert it: save_pretrained)"},
	{"vocab.json", "vocab.json with merges.txt and no tokenizer.json (transformers can convert it: save_pretrained)"},
	{"vocab.txt", "a WordPiece vocab.txt without tokenizer.json (transformers can convert it: save_pretrained)"},
}

// refuse names the format of a folder that has none of the known ones.
func refuse(dir string) error {
	for _, format := range refused {
		found, err := filepath.Glob(filepath.Join(dir, format.pattern))
		if err == nil && len(found) > 0 {
			return fmt.Errorf("%w: %s", ErrUnsupported, format.name)
		}
	}
	return fmt.Errorf("no tokenizer.json in the model directory: %w", fs.ErrNotExist)
}

// readFile reads a file of bounded size.
func readFile(dir, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > MaxFileBytes {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, info.Size(), MaxFileBytes)
	}
	return os.ReadFile(path)
}
