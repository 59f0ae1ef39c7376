package definition

import (
	"encoding/json"
	"fmt"
)

// llamaClasses are the tokenizer classes whose BOS and EOS transformers 4 puts around a text by itself, whatever the
// post-processor of tokenizer.json does. Transformers 5 leaves it to that file.
var llamaClasses = [...]string{"LlamaTokenizerFast", "LlamaTokenizer"}

// bosConfig is the part of tokenizer_config.json that says so.
type bosConfig struct {
	Class  string          `json:"tokenizer_class"`
	AddBOS *bool           `json:"add_bos_token"`
	AddEOS bool            `json:"add_eos_token"`
	BOS    json.RawMessage `json:"bos_token"`
	EOS    json.RawMessage `json:"eos_token"`
}

// UseTransformers4 changes the definition to what workers with transformers 4 make of the directory: for Llama's class
// the post-processor becomes a template of add_bos_token (true when absent) and add_eos_token. DeepSeek V3 gets a BOS
// in front of text prompts that way. Chats do not change: they are encoded without special tokens.
func (d *Definition) UseTransformers4(dir string) error {
	data, err := readFile(dir, configFile)
	if err != nil || d.JSON == nil {
		return nil //nolint:nilerr // without the file there is no class
	}
	var config bosConfig
	if err := json.Unmarshal(data, &config); err != nil {
		return fmt.Errorf("parse %s: %w", configFile, err)
	}
	if config.Class != llamaClasses[0] && config.Class != llamaClasses[1] {
		return nil
	}
	var around [2]*AddedToken
	if config.AddBOS == nil || *config.AddBOS {
		around[0] = d.addedNamed(config.BOS)
	}
	if config.AddEOS {
		around[1] = d.addedNamed(config.EOS)
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(d.JSON, &parts); err != nil {
		return fmt.Errorf("parse %s: %w", tokenizerFile, err)
	}
	if parts["post_processor"], err = json.Marshal(template(around)); err != nil {
		return err
	}
	d.JSON = join(parts)
	return nil
}

// addedNamed finds a special token that is given as text or as an object with its content; nil when there is none.
func (d *Definition) addedNamed(raw json.RawMessage) *AddedToken {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		var object struct {
			Content string `json:"content"`
		}
		if json.Unmarshal(raw, &object) != nil {
			return nil
		}
		text = object.Content
	}
	for i := range d.Added {
		if d.Added[i].Content == text && text != "" {
			return &d.Added[i]
		}
	}
	return nil
}

// template is a post-processor of tokenizer.json that puts tokens before and after a text.
func template(around [2]*AddedToken) map[string]any {
	piece := func(kind, id string) map[string]any {
		return map[string]any{kind: map[string]any{"id": id, "type_id": 0}}
	}
	special := map[string]any{}
	build := func(sequences ...string) []map[string]any {
		var out []map[string]any
		for _, sequence := range sequences {
			if around[0] != nil {
				out = append(out, piece("SpecialToken", around[0].Content))
			}
			out = append(out, piece("Sequence", sequence))
			if around[1] != nil {
				out = append(out, piece("SpecialToken", around[1].Content))
			}
		}
		return out
	}
	for _, token := range around {
		if token != nil {
			special[token.Content] = map[string]any{
				"id": token.Content, "ids": []uint32{token.ID}, "tokens": []string{token.Content},
			}
		}
	}
	return map[string]any{
		"type": "TemplateProcessing", "single": build("A"), "pair": build("A", "B"), "special_tokens": special,
	}
}
