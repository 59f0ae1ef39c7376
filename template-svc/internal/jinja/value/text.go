package value

import (
	"strings"
	"unicode/utf8"
)

// Functions on text count code points where Python does and bytes nowhere.

// Escape replaces the five characters that HTML reserves, as markupsafe does.
func Escape(s string) string {
	if !strings.ContainsAny(s, `&<>'"`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '&':
			b.WriteString("&amp;")
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '\'':
			b.WriteString("&#39;")
		case '"':
			b.WriteString("&#34;")
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// LStrip strips whitespace from the left.
func LStrip(s string) string {
	for s != "" {
		if c := s[0]; c < utf8.RuneSelf {
			if !IsSpace(rune(c)) {
				return s
			}
			s = s[1:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		if !IsSpace(r) {
			return s
		}
		s = s[n:]
	}
	return s
}

// RStrip strips whitespace from the right.
func RStrip(s string) string {
	for s != "" {
		if c := s[len(s)-1]; c < utf8.RuneSelf {
			if !IsSpace(rune(c)) {
				return s
			}
			s = s[:len(s)-1]
			continue
		}
		r, n := utf8.DecodeLastRuneInString(s)
		if !IsSpace(r) {
			return s
		}
		s = s[:len(s)-n]
	}
	return s
}

// Strip strips whitespace from both ends.
func Strip(s string) string { return RStrip(LStrip(s)) }

// Offset is the byte offset of code point i of s, len(s) if i is beyond.
func Offset(s string, i int) int {
	if i >= len(s) {
		return len(s)
	}
	at := 0
	for ; i > 0 && at < len(s); i-- {
		at += runeLen(s[at:])
	}
	return at
}

// RuneAt gives code point i (not negative) of s; ok is false out of range.
func RuneAt(s string, i int) (string, bool) {
	at := Offset(s, i)
	if at >= len(s) {
		return "", false
	}
	return s[at : at+runeLen(s[at:])], true
}
