package syntax

import (
	"strings"
	"unicode/utf8"

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

// tokenize gives the tokens of src, closed by an eof token.
func tokenize(src *source) ([]token, error) {
	l := &lexer{src: src, s: src.text, lineStart: true}
	for l.at < len(l.s) {
		if err := l.data(); err != nil {
			return nil, err
		}
	}
	l.emit(token{kind: kEOF, off: len(l.s)})
	return l.toks, nil
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

// comment moves over a comment; the first "#}" ends it, comments do not
// nest.
func (l *lexer) comment(open int) error {
	if l.at >= len(l.s) {
		return nil // Jinja2 lets a template end right after "{#"
	}
	end := strings.Index(l.s[l.at:], "#}")
	if end < 0 {
		return l.src.fail(open, "Missing end of comment tag")
	}
	start := l.at
	l.at += end
	if end > 0 && (l.s[l.at-1] == '-' || l.s[l.at-1] == '+') && l.at-1 >= start {
		l.at--
	}
	l.close("#}", true)
	return nil
}

// rawBegin recognises the rest of a raw tag at l.at and gives where its body starts.
func (l *lexer) rawBegin() (body int, ok bool) {
	i := l.skipSpace(l.at)
	if !strings.HasPrefix(l.s[i:], "raw") {
		return 0, false
	}
	i = l.skipSpace(i + len("raw"))
	switch {
	case strings.HasPrefix(l.s[i:], "-%}"):
		return l.skipSpace(i + 3), true
	case strings.HasPrefix(l.s[i:], "%}"):
		return i + 2, true
	}
	return 0, false
}

// raw reads the body up to the first endraw tag as plain text.
func (l *lexer) raw(open, body int) error {
	l.lineStart = l.s[body-1] == '\n'
	if body >= len(l.s) {
		l.at = body
		return nil
	}
	for i := body; ; {
		j := strings.Index(l.s[i:], "{%")
		if j < 0 {
			return l.src.fail(open, "Missing end of raw directive")
		}
		i += j
		sign := l.signAt(i + 2)
		k := i + 2
		if sign != 0 {
			k++
		}
		k = l.skipSpace(k)
		if strings.HasPrefix(l.s[k:], "endraw") {
			l.at = l.skipSpace(k + len("endraw"))
			if l.close("%}", true) {
				lineStart := l.lineStart
				l.lineStart = l.s[body-1] == '\n'
				l.text(body, i, sign, false)
				l.lineStart = lineStart
				return nil
			}
		}
		i += 2
	}
}

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
