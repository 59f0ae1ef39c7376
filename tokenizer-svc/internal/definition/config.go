package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
)

// tokenizerConfig is the part of tokenizer_config.json that decides ids.
type tokenizerConfig struct {
	Class         string                `json:"tokenizer_class"`
	AutoMap       map[string]any        `json:"auto_map"`
	AddedByID     map[string]AddedToken `json:"added_tokens_decoder"`
	addedTokens   []AddedToken
	autoTokenizer string
}

// readConfig reads tokenizer_config.json; a folder without one has the zero configuration.
func readConfig(dir string) (tokenizerConfig, error) {
	data, err := readFile(dir, configFile)
	if errors.Is(err, fs.ErrNotExist) {
		return tokenizerConfig{}, nil
	}
	if err != nil {
		return tokenizerConfig{}, err
	}
	return parseConfig(data)
}

// parseConfig reads the file's bytes and puts the added tokens in id order.
func parseConfig(data []byte) (tokenizerConfig, error) {
	var config tokenizerConfig
	if err := json.Unmarshal(data, &config); err != nil {
		return config, fmt.Errorf("parse %s: %w", configFile, err)
	}
	for text, token := range config.AddedByID {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return config, fmt.Errorf("parse %s: added_tokens_decoder has the key %q, no token id", configFile, text)
		}
		token.ID = uint32(id)
		config.addedTokens = append(config.addedTokens, token)
	}
	slices.SortFunc(config.addedTokens, func(a, b AddedToken) int { return int(int64(a.ID) - int64(b.ID)) })
	config.autoTokenizer = firstString(config.AutoMap["AutoTokenizer"])
	return config, nil
}

// firstString reads auto_map's value, a string or a list [slow, fast] whose members may be null.
func firstString(v any) string {
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	s, _ := v.(string)
	return s
}

// readModelVocabulary reads vocab_size of config.json, at the top or in text_config.
func readModelVocabulary(dir string) (int, error) {
	data, err := readFile(dir, modelFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var config struct {
		Vocabulary int `json:"vocab_size"`
		Text       struct {
			Vocabulary int `json:"vocab_size"`
		} `json:"text_config"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return 0, fmt.Errorf("parse %s: %w", modelFile, err)
	}
	return max(config.Vocabulary, config.Text.Vocabulary), nil
}
