package definition

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzFromJSON reads files that may be anything: what is accepted must come out as JSON with truncation and padding
// reset and all added tokens listed.
func FuzzFromJSON(f *testing.F) {
	f.Add(`{"added_tokens":[{"id":1,"content":"<s>"}],"model":{}}`, `{"added_tokens_decoder":{"7":{"content":"<x>"}}}`)
	f.Add(`{"added_tokens":null,"normalizer":null,"truncation":{"max_length":3}}`, `{}`)
	f.Add(`{"normalizer":{"type":"Sequence","normalizers":[{}]},"pre_tokenizer":{"prepend_scheme":"first"}}`, `{"auto_map":{}}`)
	f.Add(`{"aDded_tokens":[{"id":1,"content":"<s>"}],"model":{}}`, `{"added_tokens_decoder":{"7":{"content":"<x>"}}}`)
	f.Fuzz(func(t *testing.T, tokenizer, settings string) {
		config, err := parseConfig([]byte(settings))
		if err != nil {
			return
		}
		def, err := fromJSON([]byte(tokenizer), config)
		if err != nil {
			return
		}
		parts := map[string]json.RawMessage{} // a struct would also take names of other case, which mean nothing in the file
		require.NoError(t, json.Unmarshal(def.JSON, &parts))
		require.Equal(t, "null", string(parts["truncation"]))
		require.Equal(t, "null", string(parts["padding"]))
		var added []AddedToken
		if raw, ok := parts["added_tokens"]; ok {
			require.NoError(t, json.Unmarshal(raw, &added))
		}
		require.Len(t, added, len(def.Added))
	})
}
