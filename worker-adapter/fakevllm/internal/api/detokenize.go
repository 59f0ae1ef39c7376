package api

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// detokenizer knows which text each token adds. What a token adds does not depend on the tokens before it, but for
// bytes of a split character; the texts of single tokens are remembered, and a text that cannot be put together from
// them is taken apart in groups.
type detokenizer struct {
	tok    Tokenizer
	anchor []uint32 // a token in front keeps decoders from trimming the space of a first word
	lead   string

	mu     sync.RWMutex
	pieces map[uint32]string
}

// maxPieces bounds the memory for single tokens' texts; answers use a few hundred different tokens.
const maxPieces = 1 << 16

// newDetokenizer tries the tokenizer out.
func newDetokenizer(ctx context.Context, tok Tokenizer) (*detokenizer, error) {
	d := &detokenizer{tok: tok, pieces: map[uint32]string{}}
	var err error
	if d.anchor, err = tok.Encode(ctx, []byte("a"), false); err != nil {
		return nil, fmt.Errorf("encode a first text: %w", err)
	}
	if d.lead, err = tok.Decode(d.anchor); err != nil {
		return nil, fmt.Errorf("decode a first text: %w", err)
	}
	return d, nil
}

// piece is the text of one token; a token that fails to decode has none.
func (d *detokenizer) piece(id uint32) string {
	d.mu.RLock()
	p, ok := d.pieces[id]
	d.mu.RUnlock()
	if ok {
		return p
	}
	p, err := d.tok.Decode(append(d.anchor[:len(d.anchor):len(d.anchor)], id))
	if err != nil {
		p = d.lead
	}
	p = strings.TrimPrefix(p, d.lead)
	d.mu.Lock()
	if len(d.pieces) < maxPieces {
		d.pieces[id] = p
	}
	d.mu.Unlock()
	return p
}

// ends returns for each token where the text that exists after it ends. ids must be the encoding of text. A decoder may
// leave special tokens out: they end where the token before them ends, and the next word is looked for behind them.
func (d *detokenizer) ends(text string, ids []uint32) []int {
	const longestSpecial = 64
	out := make([]int, len(ids))
	pos := 0
	for i := 0; i < len(ids); i++ {
		p := d.piece(ids[i])
		if strings.HasPrefix(text[pos:], p) {
			pos += len(p)
			out[i] = pos
			continue
		}
		if n, part := d.group(text[pos:], ids[i:]); n > 0 {
			for k := range n - 1 { // an unfinished character shows nothing
				out[i+k] = pos
			}
			i += n - 1
			pos += len(part)
		} else if k := strings.Index(text[pos:min(len(text), pos+longestSpecial)], p); k > 0 {
			pos += k + len(p)
		}
		out[i] = pos
	}
	if len(out) > 0 {
		out[len(out)-1] = len(text)
	}
	return out
}

// group finds how many tokens together make the next part of the text, and that part; 0 if none do. A character takes
// at most four bytes, and some tokens hold parts of two.
func (d *detokenizer) group(text string, ids []uint32) (n int, part string) {
	for n := 2; n <= min(8, len(ids)); n++ {
		whole, err := d.tok.Decode(append(d.anchor[:len(d.anchor):len(d.anchor)], ids[:n]...))
		part := strings.TrimPrefix(whole, d.lead)
		if err == nil && part != "" && strings.HasPrefix(text, part) && !strings.HasSuffix(part, "\uFFFD") {
			return n, part
		}
	}
	return 0, ""
}

// join is the text of a prompt, token by token.
func (d *detokenizer) join(ids []uint32) string {
	if text, err := d.tok.Decode(ids); err == nil {
		return text
	}
	return ""
}
