// Package plain is the tokenizer and the chat renderer that the simulated worker uses when it is given none: bytes as
// tokens, and a ChatML-like template. No real model is tokenised or rendered this way.
package plain

import (
	"bytes"
	"context"
	"unicode/utf8"
)

// Special tokens stand behind the 256 bytes, in this order.
const (
	IMStart   uint32 = 256 + iota // <|im_start|>
	IMEnd                         // <|im_end|>, ends a turn
	EndOfText                     // <|endoftext|>
	Think                         // <think>
	EndThink                      // </think>
	ToolCall                      // <tool_call>
	EndTool                       // </tool_call>
	VocabSize                     // first id that is no token
)

// specials are the markers in the order of their ids.
func specials() [VocabSize - IMStart]string {
	return [...]string{
		"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>",
	}
}

// Tokenizer maps each byte to the token of its value, and the special markers to one token each.
type Tokenizer struct{}

// Encode never fails; addSpecial changes nothing, because there is no begin-of-sequence token.
func (Tokenizer) Encode(_ context.Context, text []byte, _ bool) ([]uint32, error) {
	ids := make([]uint32, 0, len(text))
	for len(text) > 0 {
		if id, n := special(text); n > 0 {
			ids = append(ids, id)
			text = text[n:]
			continue
		}
		ids = append(ids, uint32(text[0]))
		text = text[1:]
	}
	return ids, nil
}

// special finds a marker at the beginning of text; length 0 if there is none.
func special(text []byte) (id uint32, length int) {
	if text[0] != '<' {
		return 0, 0
	}
	for i, s := range specials() {
		if bytes.HasPrefix(text, []byte(s)) {
			return IMStart + uint32(i), len(s)
		}
	}
	return 0, 0
}

// Decode returns the bytes of the tokens; what is no UTF-8 becomes U+FFFD, ids outside the vocabulary become nothing.
func (Tokenizer) Decode(ids []uint32) (string, error) {
	buf := make([]byte, 0, len(ids))
	for _, id := range ids {
		switch {
		case id < 256:
			buf = append(buf, byte(id))
		case id < VocabSize:
			buf = append(buf, specials()[id-IMStart]...)
		}
	}
	if !utf8.Valid(buf) {
		buf = bytes.ToValidUTF8(buf, []byte("\uFFFD"))
	}
	return string(buf), nil
}
