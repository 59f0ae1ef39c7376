package value

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Python maps case by the full rules of Unicode: one character may become
// several, and a sigma at a word's end is another letter. Go's unicode
// package maps one to one; the tables hold the rest.

// The full mappings by character. They are read only; most characters are in none.
var (
	upperOf = mappings(upperPairs)
	titleOf = mappings(titlePairs)
	foldOf  = mappings(foldPairs)
)

// mappings reads a table of words that are a character and its mapping.
func mappings(table string) map[rune]string {
	words := strings.Fields(table)
	of := make(map[rune]string, len(words))
	for _, word := range words {
		r, n := utf8.DecodeRuneInString(word)
		of[r] = word[n:]
	}
	return of
}

// Upper is str.upper with full case mapping.
func Upper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	var b strings.Builder
	for _, r := range s {
		if r >= 0x80 {
			if full, ok := upperOf[r]; ok {
				b.WriteString(full)
				continue
			}
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

// Lower is str.lower with full case mapping and final sigma.
func Lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	for i, r := range s {
		writeLower(&b, s, i, r)
	}
	return b.String()
}

// writeLower writes the full lower case of the character at byte i of s.
func writeLower(b *strings.Builder, s string, i int, r rune) {
	switch {
	case r == 'İ':
		b.WriteString("i̇")
	case r == 'Σ' && isFinalSigma(s, i):
		b.WriteRune('ς')
	default:
		b.WriteRune(unicode.ToLower(r))
	}
}

// isFinalSigma reports whether the sigma at byte i ends a word: a cased letter
// before it and none after it, ignorable signs not counted.
func isFinalSigma(s string, i int) bool {
	before := false
	for rest := s[:i]; rest != ""; {
		r, n := utf8.DecodeLastRuneInString(rest)
		rest = rest[:len(rest)-n]
		if !isCaseIgnorable(r) {
			before = IsCased(r)
			break
		}
	}
	if !before {
		return false
	}
	for _, r := range s[i+len("Σ"):] {
		if !isCaseIgnorable(r) {
			return !IsCased(r)
		}
	}
	return true
}

// isCaseIgnorable reports the characters that final sigma looks through.
func isCaseIgnorable(r rune) bool {
	return strings.ContainsRune("'.:^`·\u00ad\u00b7\u2019\u2018\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a", r) ||
		unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
}

// writeTitle writes the full title case of a character.
func writeTitle(b *strings.Builder, r rune) {
	if r >= 0x80 {
		if full, ok := titleOf[r]; ok {
			b.WriteString(full)
			return
		}
	}
	b.WriteRune(unicode.ToTitle(r))
}

// Title is str.title: a letter after a non-letter is put in title case.
func Title(s string) string {
	var b strings.Builder
	cased := false
	for i, r := range s {
		if cased {
			writeLower(&b, s, i, r)
		} else {
			writeTitle(&b, r)
		}
		cased = IsCased(r)
	}
	return b.String()
}

// Capitalize is str.capitalize.
func Capitalize(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i == 0 {
			writeTitle(&b, r)
		} else {
			writeLower(&b, s, i, r)
		}
	}
	return b.String()
}

// SwapCase is str.swapcase.
func SwapCase(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case IsUpper(r):
			writeLower(&b, s, i, r)
		case IsLower(r):
			b.WriteString(Upper(string(r)))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Casefold is str.casefold.
func Casefold(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 0x13a0 && r <= 0x13f5: // Cherokee folds to its capitals
			b.WriteRune(r)
		case r >= 0x13f8 && r <= 0x13fd:
			b.WriteRune(r - 8)
		case r >= 0xab70 && r <= 0xabbf:
			b.WriteRune(r - 0xab70 + 0x13a0)
		default:
			if full, ok := foldOf[r]; ok {
				b.WriteString(full)
			} else if r == 'İ' {
				b.WriteString("i̇")
			} else {
				b.WriteRune(unicode.ToLower(r))
			}
		}
	}
	return b.String()
}
