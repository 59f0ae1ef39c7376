package segment

import "bytes"

// matcher finds tokens in text, leftmost first and the longest at each place, without overlap: the rule by which the
// engines match added tokens. It is a byte trie; added tokens are few and short.
type matcher struct {
	nodes []node
	// first marks bytes that begin a token; only is that byte when there is exactly one.
	first  [256]bool
	only   byte
	single bool
}

type node struct {
	edges []edge
	// token is 1 + the index of the token that ends here, 0 for none.
	token int
}

type edge struct {
	b    byte
	next int
}

// match is one found token: text[start:end] is the token with this index.
type match struct{ start, end, token int }

// newMatcher builds the trie. Tokens are not empty; of equal ones the first counts.
func newMatcher(tokens []string) *matcher {
	m := &matcher{nodes: make([]node, 1)}
	count := 0
	for i, token := range tokens {
		if !m.first[token[0]] {
			m.first[token[0]] = true
			m.only = token[0]
			count++
		}
		at := 0
		for _, b := range []byte(token) {
			at = m.child(at, b)
		}
		if m.nodes[at].token == 0 {
			m.nodes[at].token = i + 1
		}
	}
	m.single = count == 1
	return m
}

// child returns the node below at for b, making it if needed.
func (m *matcher) child(at int, b byte) int {
	for _, e := range m.nodes[at].edges {
		if e.b == b {
			return e.next
		}
	}
	next := len(m.nodes)
	m.nodes = append(m.nodes, node{})
	m.nodes[at].edges = append(m.nodes[at].edges, edge{b: b, next: next})
	return next
}

// next finds the first match in text[from:to].
func (m *matcher) next(text []byte, from, to int) (match, bool) {
	for at := from; at < to; at++ {
		if at = m.candidate(text, at, to); at < 0 {
			break
		}
		if end, token := m.longest(text, at, to); token > 0 {
			return match{start: at, end: end, token: token - 1}, true
		}
	}
	return match{}, false
}

// candidate returns the next place in text[at:to] whose byte begins a token, -1 for none.
func (m *matcher) candidate(text []byte, at, to int) int {
	if m.single {
		i := bytes.IndexByte(text[at:to], m.only)
		if i < 0 {
			return -1
		}
		return at + i
	}
	for ; at < to; at++ {
		if m.first[text[at]] {
			return at
		}
	}
	return -1
}

// longest walks the trie from text[at] and returns the end of the longest token there, and 1 + its index.
func (m *matcher) longest(text []byte, at, to int) (end, token int) {
	n := 0
	for i := at; i < to; i++ {
		n = m.step(n, text[i])
		if n == 0 {
			return end, token
		}
		if t := m.nodes[n].token; t > 0 {
			end, token = i+1, t
		}
	}
	return end, token
}

// step follows the edge for b; 0 means that there is none, since no edge leads to the root.
func (m *matcher) step(n int, b byte) int {
	for _, e := range m.nodes[n].edges {
		if e.b == b {
			return e.next
		}
	}
	return 0
}
