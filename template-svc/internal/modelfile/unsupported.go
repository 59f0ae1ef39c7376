package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// notJinja says which prompt format vLLM 0.32 uses instead of Jinja for a model type or architecture of config.json.
func notJinja(name string) string {
	switch name {
	case "DeepseekV32ForCausalLM":
		return "vLLM renders DeepSeek V3.2 with its own code (tokenizer mode deepseek_v32)"
	case "DeepseekV4ForCausalLM":
		return "vLLM renders DeepSeek V4 with its own code (tokenizer mode deepseek_v4)"
	case "KimiK3ForCausalLM":
		return "vLLM renders Kimi K3 with its own code (tokenizer mode kimi_k3)"
	case "InklingForCausalLM":
		return "vLLM renders Inkling with its own code (tokenizer mode inkling)"
	}
	return ""
}

// examine finds the model's architecture, and why it does not use a Jinja template, if so.
func (f *Files) examine(dir string) error {
	var config struct {
		ModelType     string   `json:"model_type"`
		Architectures []string `json:"architectures"`
	}
	if err := readJSON(filepath.Join(dir, "config.json"), &config); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.classify(config.ModelType, config.Architectures)
	versioned, err := filepath.Glob(filepath.Join(dir, "tokenizer.model.v*"))
	if err != nil {
		return fmt.Errorf("list %q: %w", dir, err)
	}
	if exists(filepath.Join(dir, "tekken.json")) || len(versioned) > 0 {
		f.Unsupported = "vLLM renders Mistral repositories with tekken.json or tokenizer.model.v* by mistral-common"
		return nil
	}
	return nil
}

// classify finds out what config.json's names of a model mean for its prompts.
func (f *Files) classify(modelType string, architectures []string) {
	if len(architectures) > 0 {
		f.Architecture = architectures[0]
	}
	f.Harmony = modelType == "gpt_oss" || f.Architecture == "GptOssForCausalLM"
	for _, name := range append([]string{modelType}, architectures...) {
		if f.Unsupported = notJinja(name); f.Unsupported != "" {
			return
		}
	}
}
