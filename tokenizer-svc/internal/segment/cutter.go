// Package segment reuses what is known of text seen before. A Cutter divides a prompt right after added tokens (the ends
// of chat messages), where the ids of the pieces are the ids of the whole; a Cache keeps, for every prompt's beginning up
// to a cut, which unit hashes its last piece adds. A conversation's next turn then costs a hash of its old messages, and
// encoding its new ones.
package segment

import "github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"

// Cutter divides text after added tokens. It is immutable and safe for concurrent use.
type Cutter struct {
	raw, second           *matcher
	rawAfter, secondAfter []bool
}

// NewCutter returns the cutter of a tokenizer, nil when its rules refuse cutting.
func NewCutter(cut definition.Cut) *Cutter {
	if cut.Refused != "" {
		return nil
	}
	c := &Cutter{}
	c.raw, c.rawAfter = matcherOf(cut.Raw)
	c.second, c.secondAfter = matcherOf(cut.Second)
	return c
}

// matcherOf returns the matcher of one pass and which of its tokens are cut after; nil for no tokens.
func matcherOf(tokens []definition.CutToken) (*matcher, []bool) {
	if len(tokens) == 0 {
		return nil, nil
	}
	contents, after := make([]string, len(tokens)), make([]bool, len(tokens))
	for i, token := range tokens {
		contents[i], after[i] = token.Content, token.After
	}
	return newMatcher(contents), after
}

// AppendCuts appends the ends of the pieces of text, in order; the last is len(text). A piece ends at the first place
// where cutting is exact and the piece has at least minBytes, so that equal beginnings give equal pieces.
func (c *Cutter) AppendCuts(dst []int, text []byte, minBytes int) []int {
	start, at := 0, 0
	cut := func(end int) {
		if end-start >= minBytes && end < len(text) {
			dst = append(dst, end)
			start = end
		}
	}
	for at < len(text) {
		found, ok := match{start: len(text), end: len(text)}, false
		if c.raw != nil {
			if m, hit := c.raw.next(text, at, len(text)); hit {
				found, ok = m, true
			}
		}
		c.cutsBetween(text, at, found.start, cut)
		if ok && c.rawAfter[found.token] {
			cut(found.end)
		}
		at = found.end
	}
	return append(dst, len(text))
}

// cutsBetween reports the cuts of the second pass in text[from:to], which holds no token of the first.
func (c *Cutter) cutsBetween(text []byte, from, to int, cut func(int)) {
	if c.second == nil {
		return
	}
	for from < to {
		m, ok := c.second.next(text, from, to)
		if !ok {
			return
		}
		if c.secondAfter[m.token] {
			cut(m.end)
		}
		from = m.end
	}
}
