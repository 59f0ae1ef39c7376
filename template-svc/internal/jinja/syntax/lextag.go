package syntax

import (
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Inside a tag tokens follow one another; the closing sign counts only
// while no bracket is open.

// tag reads tokens up to the closing sign.
func (l *lexer) tag(sign string, end kind) error {
	l.brackets = l.brackets[:0]
	for l.at < len(l.s) {
		off := l.at
		if len(l.brackets) == 0 && l.close(sign, end == kBlockEnd) {
			l.emit(token{kind: end, off: off})
			return nil
		}
		if err := l.token(); err != nil {
			return err
		}
		l.lineStart = false
	}
	return nil
}

// token reads whitespace or one token inside a tag.
func (l *lexer) token() error {
	c := l.s[l.at]
	if next := l.skipSpace(l.at); next > l.at {
		l.at = next
		return nil
	}
	r, _ := utf8.DecodeRuneInString(l.s[l.at:])
	switch {
	case c >= '0' && c <= '9':
		return l.number()
	case c == '"' || c == '\'':
		if l.str(c) {
			return l.decode()
		}
	case isWordRune(r):
		return l.name()
	}
	for _, o := range operators {
		if strings.HasPrefix(l.s[l.at:], o.text) {
			return l.operator(o.text, o.kind)
		}
	}
	return l.src.fail(l.at, "unexpected char %s at %d", value.ReprString(string(r)),
		utf8.RuneCountInString(l.s[:l.at]))
}

// isWordRune reports whether r may stand in a name or in what looks like
// one.
func isWordRune(r rune) bool {
	return value.IsWord(r) || r > 0x7f && value.IsIdentifier("a"+string(r))
}

// name reads a name: SyntaxError if it is no Python identifier.
func (l *lexer) name() error {
	start := l.at
	for l.at < len(l.s) {
		r, n := utf8.DecodeRuneInString(l.s[l.at:])
		if !isWordRune(r) {
			break
		}
		l.at += n
	}
	name := l.s[start:l.at]
	if !value.IsIdentifier(name) {
		return l.src.fail(start, "Invalid character in identifier")
	}
	l.emit(token{kind: kName, text: name, off: start})
	return nil
}

// operator emits an operator and keeps count of brackets.
func (l *lexer) operator(text string, k kind) error {
	switch text {
	case "{":
		l.brackets = append(l.brackets, '}')
	case "(":
		l.brackets = append(l.brackets, ')')
	case "[":
		l.brackets = append(l.brackets, ']')
	case "}", ")", "]":
		n := len(l.brackets)
		if n == 0 {
			return l.src.fail(l.at, "unexpected '%s'", text)
		}
		if due := l.brackets[n-1]; due != text[0] {
			return l.src.fail(l.at, "unexpected '%s', expected '%c'", text, due)
		}
		l.brackets = l.brackets[:n-1]
	}
	l.emit(token{kind: k, off: l.at})
	l.at += len(text)
	return nil
}
