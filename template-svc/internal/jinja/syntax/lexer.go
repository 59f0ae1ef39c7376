package syntax

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// lexer cuts source into tokens. Between tags it looks for the next opening
// sign; inside a tag it reads tokens until the closing sign, which counts only
// while no bracket is open.
type lexer struct {
	src      *source
	s        string
	at       int
	toks     []token
	brackets []byte // closing brackets that are due
	// lineStart: the text consumed last ended a line, or nothing was consumed.
	lineStart bool
}

// tokenize gives the tokens of src, closed by an eof token. On a fault it gives those before it: the parser comes to
// the fault only if it finds none earlier, as Jinja's does, which reads tokens one by one.
func tokenize(src *source) (toks []token, fault error) {
	l := &lexer{src: src, s: src.text, lineStart: true}
	for l.at < len(l.s) && fault == nil {
		fault = l.data()
	}
	l.emit(token{kind: kEOF, off: len(l.s)})
	return l.toks, fault
}

// emit adds a token.
func (l *lexer) emit(t token) { l.toks = append(l.toks, t) }

// opening finds the next "{{", "{%" or "{#".
func (l *lexer) opening() int {
	for i := l.at; ; {
		j := strings.IndexByte(l.s[i:], '{')
		if j < 0 || i+j+1 >= len(l.s) {
			return -1
		}
		i += j
		switch l.s[i+1] {
		case '{', '%', '#':
			return i
		}
		i++
	}
}

// data reads plain text and the tag that follows it.
func (l *lexer) data() error {
	start := l.at
	open := l.opening()
	if open < 0 {
		l.emit(token{kind: kData, text: l.s[start:], off: start})
		l.at = len(l.s)
		return nil
	}
	sign := l.signAt(open + 2)
	l.text(start, open, sign, l.s[open+1] == '{')
	l.at = open + 2
	if sign != 0 {
		l.at++
	}
	switch l.s[open+1] {
	case '{':
		l.emit(token{kind: kVariableBegin, off: open})
		l.lineStart = false
		return l.tag("}}", kVariableEnd)
	case '#':
		return l.comment(open)
	}
	if body, ok := l.rawBegin(); ok {
		return l.raw(open, body)
	}
	l.emit(token{kind: kBlockBegin, off: open})
	l.lineStart = false
	return l.tag("%}", kBlockEnd)
}

// signAt gives the whitespace sign at byte i, 0 if there is none.
func (l *lexer) signAt(i int) byte {
	if i < len(l.s) && (l.s[i] == '-' || l.s[i] == '+') {
		return l.s[i]
	}
	return 0
}

// text emits the plain text before a tag after the tag's sign and the rule for
// whitespace between line start and block tag were applied.
func (l *lexer) text(start, end int, sign byte, variable bool) {
	t := l.s[start:end]
	switch {
	case sign == '-':
		t = value.RStrip(t)
	case sign != '+' && !variable:
		nl := strings.LastIndexByte(t, '\n') + 1
		if (nl > 0 || l.lineStart) && value.LStrip(t[nl:]) == "" {
			t = t[:nl]
		}
	}
	if t != "" {
		l.emit(token{kind: kData, text: t, off: start})
	}
}

// skipSpace moves i over whitespace.
func (l *lexer) skipSpace(i int) int { return len(l.s) - len(value.LStrip(l.s[i:])) }

// close reads the closing sign at l.at: "+" keeps and "-" strips what follows,
// else one newline goes if trim is set.
func (l *lexer) close(sign string, trim bool) bool {
	rest := l.s[l.at:]
	switch {
	case strings.HasPrefix(rest, "-"+sign):
		l.at = l.skipSpace(l.at + 1 + len(sign))
	case trim && strings.HasPrefix(rest, "+"+sign):
		l.at += 1 + len(sign)
	case strings.HasPrefix(rest, sign):
		l.at += len(sign)
		if trim && strings.HasPrefix(l.s[l.at:], "\n") {
			l.at++
		}
	default:
		return false
	}
	l.lineStart = l.s[l.at-1] == '\n'
	return true
}
