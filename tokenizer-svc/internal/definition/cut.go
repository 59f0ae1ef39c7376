package definition

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cut says where text may be cut so that the ids of the pieces, put together, are the ids of the whole.
//
// An engine splits text at added tokens before anything else, so a cut right after one is exact unless the token or
// the pipeline looks past it. The rules here exclude what is known to; the check at load has the last word.
type Cut struct {
	// Raw holds the tokens that are matched on the text as it is, first.
	Raw []CutToken
	// Second holds the tokens matched on what Raw leaves. Set only when no normalizer can change that text.
	Second []CutToken
	// Refused says why text is never cut; empty when it may be.
	Refused string
}

// CutToken is a token to match. Text is cut after it only when After is set.
type CutToken struct {
	Content string
	After   bool
}

// readCut applies the rules to a tokenizer.json.
func readCut(parts map[string]json.RawMessage, added []AddedToken) (Cut, error) {
	if reason := blockedByPipeline(parts); reason != "" {
		return Cut{Refused: reason}, nil
	}
	normalizes, err := changesText(parts["normalizer"])
	if err != nil {
		return Cut{}, err
	}
	return cutAfter(added, normalizes), nil
}

// cutAfter sorts the tokens into the engine's two passes. normalizes says that a normalizer may change text, so that
// tokens of the second pass cannot be found here.
func cutAfter(added []AddedToken, normalizes bool) Cut {
	var cut Cut
	strips, startsWithSpace := false, false
	for _, token := range added {
		first, _ := utf8.DecodeRuneInString(token.Content)
		strips = strips || token.RStrip
		startsWithSpace = startsWithSpace || unicode.IsSpace(first)
		switch {
		case token.SingleWord:
			return Cut{Refused: "an added token matches whole words only"}
		case token.Content == "":
		case !token.Normalized:
			cut.Raw = append(cut.Raw, CutToken{Content: token.Content, After: !token.RStrip})
		case !normalizes:
			cut.Second = append(cut.Second, CutToken{Content: token.Content, After: !token.RStrip})
		}
	}
	if strips && startsWithSpace {
		return Cut{Refused: "an added token takes the space after it and another starts with space"}
	}
	if len(cut.Raw)+len(cut.Second) == 0 {
		return Cut{Refused: "no added token to cut at"}
	}
	return cut
}

// blockedByPipeline names settings under which a piece's ids depend on where it stands.
func blockedByPipeline(parts map[string]json.RawMessage) string {
	compact := strings.NewReplacer(" ", "", "\n", "", "\t", "", "\r", "")
	for _, name := range []string{"pre_tokenizer", "normalizer", "decoder"} {
		if strings.Contains(compact.Replace(string(parts[name])), `"prepend_scheme":"first"`) && name != "decoder" {
			return "the pre-tokenizer treats the first word of a text apart"
		}
	}
	var model struct {
		Dropout float64 `json:"dropout"`
	}
	if err := json.Unmarshal(parts["model"], &model); err == nil && model.Dropout > 0 {
		return "the model drops merges at random"
	}
	return ""
}

// changesText reports whether a normalizer can change text: null and an empty sequence cannot.
func changesText(raw json.RawMessage) (bool, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return false, nil
	}
	var normalizer struct {
		Type  string            `json:"type"`
		Steps []json.RawMessage `json:"normalizers"`
	}
	if err := json.Unmarshal(raw, &normalizer); err != nil {
		return false, fmt.Errorf("parse the normalizer of %s: %w", tokenizerFile, err)
	}
	return normalizer.Type != "Sequence" || len(normalizer.Steps) > 0, nil
}
