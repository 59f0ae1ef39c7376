package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// kimiReserved is how many ids Kimi's own tokenizer class reserves for added tokens after the ranks; those that
// tokenizer_config.json does not name are <|reserved_token_N|>.
const kimiReserved = 256

// tiktokenSpec is what native/src/engine.rs reads; Pattern may be a name it knows.
type tiktokenSpec struct {
	Pattern     string       `json:"pattern"`
	AddedTokens []AddedToken `json:"added_tokens"`
}

// fromTiktoken makes a definition of a ranks file. The file has neither pattern nor added tokens: the tokenizer's
// Python class holds them, so only known classes work.
func fromTiktoken(ranks []byte, config tokenizerConfig) (*Definition, error) {
	if !isKimi(config) {
		return nil, fmt.Errorf("%w: a tiktoken file of the class %q (auto_map %q); only Kimi's class is known",
			ErrUnsupported, config.Class, config.autoTokenizer)
	}
	added := kimiAdded(countRanks(ranks), config.addedTokens)
	spec, err := json.Marshal(tiktokenSpec{Pattern: "kimi", AddedTokens: added})
	if err != nil {
		return nil, err
	}
	return &Definition{Ranks: ranks, Spec: spec, Added: added, Cut: cutAfter(added, false)}, nil
}

// isKimi reports whether the class is the one that Moonshot ships with Kimi. Other models use its name with other
// patterns, so the module is looked at where there is one.
func isKimi(config tokenizerConfig) bool {
	return config.Class == "TikTokenTokenizer" && (config.autoTokenizer == "" ||
		strings.HasPrefix(config.autoTokenizer, "tokenization_kimi."))
}

// countRanks counts the lines that hold a rank.
func countRanks(ranks []byte) uint32 {
	n := uint32(0)
	for line := range bytes.Lines(ranks) {
		if len(bytes.TrimSpace(line)) > 0 {
			n++
		}
	}
	return n
}

// kimiAdded fills the window of reserved ids: named tokens where the configuration has them, placeholders elsewhere.
func kimiAdded(ranks uint32, named []AddedToken) []AddedToken {
	added := make([]AddedToken, kimiReserved)
	for i := range added {
		id := ranks + uint32(i)
		added[i] = AddedToken{ID: id, Content: fmt.Sprintf("<|reserved_token_%d|>", id), Special: true}
	}
	for _, token := range named {
		// Ids below the window are ordinary entries of the ranks file.
		if token.ID >= ranks && token.ID < ranks+kimiReserved {
			added[token.ID-ranks] = token
		}
	}
	return added
}
