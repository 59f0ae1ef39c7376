package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// readTemplate reads the text of the model's chat template, the first of a list; empty when it has none. It only makes
// texts on which engines are compared, so odd ones are passed over.
func readTemplate(dir string) (string, error) {
	source, err := readFile(dir, templateFile)
	if err == nil {
		return string(source), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the chat template: %w", err)
	}
	data, err := readFile(dir, configFile)
	if err != nil {
		return "", nil //nolint:nilerr // the configuration is read and judged elsewhere
	}
	var config struct {
		Template json.RawMessage `json:"chat_template"`
	}
	var text string
	var list []struct {
		Template string `json:"template"`
	}
	switch {
	case json.Unmarshal(data, &config) != nil:
		return "", nil
	case json.Unmarshal(config.Template, &text) == nil:
		return text, nil
	case json.Unmarshal(config.Template, &list) == nil && len(list) > 0:
		return list[0].Template, nil
	}
	return "", nil
}
