package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// fromJSON rewrites a tokenizer.json: truncation and padding become null, since the engines obey them and transformers
// does not, and added tokens that only tokenizer_config.json knows join the list, as transformers adds them.
func fromJSON(data []byte, config tokenizerConfig) (*Definition, error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return nil, fmt.Errorf("parse %s: %w", tokenizerFile, err)
	}
	var added []AddedToken
	if raw, ok := parts["added_tokens"]; ok {
		if err := json.Unmarshal(raw, &added); err != nil {
			return nil, fmt.Errorf("parse added_tokens of %s: %w", tokenizerFile, err)
		}
	}
	merged := mergeAdded(added, config.addedTokens)
	if len(merged) != len(added) {
		raw, err := json.Marshal(merged)
		if err != nil {
			return nil, err
		}
		parts["added_tokens"] = raw
	}
	parts["truncation"], parts["padding"] = json.RawMessage("null"), json.RawMessage("null")
	cut, err := readCut(parts, merged)
	if err != nil {
		return nil, err
	}
	return &Definition{JSON: join(parts), Added: merged, Cut: cut}, nil
}

// mergeAdded appends the tokens of more whose content added lacks, in id order.
func mergeAdded(added, more []AddedToken) []AddedToken {
	known := make(map[string]bool, len(added))
	for _, token := range added {
		known[token.Content] = true
	}
	merged := slices.Clone(added)
	for _, token := range more {
		if !known[token.Content] && token.Content != "" {
			known[token.Content] = true
			merged = append(merged, token)
		}
	}
	return merged
}

// join writes the parts as one object. Their bytes stay as they were: a vocabulary has up to 30 MB, and encoding it
// again would cost more than reading it.
func join(parts map[string]json.RawMessage) []byte {
	var out bytes.Buffer
	size := 2
	for key, raw := range parts {
		size += len(key) + len(raw) + 8
	}
	out.Grow(size)
	out.WriteByte('{')
	for i, key := range slices.Sorted(maps.Keys(parts)) {
		if i > 0 {
			out.WriteByte(',')
		}
		name, _ := json.Marshal(key) //nolint:errchkjson // text can always be written
		out.Write(name)
		out.WriteByte(':')
		out.Write(parts[key])
	}
	out.WriteByte('}')
	return out.Bytes()
}
