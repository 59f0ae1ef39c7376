package syntax

import (
	"strings"
)

// Comments and raw bodies are found before anything inside them is looked
// at.

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
