package value

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsSpace is Python's str.isspace of one character, the whitespace that strip,
// split and the "-" sign of tags know.
func IsSpace(r rune) bool {
	switch {
	case r < 0x80:
		return r == ' ' || r >= '\t' && r <= '\r' || r >= 0x1c && r <= 0x1f
	case r == 0x85 || r == 0xa0 || r == 0x1680 || r >= 0x2000 && r <= 0x200a:
		return true
	}
	return r == 0x2028 || r == 0x2029 || r == 0x202f || r == 0x205f || r == 0x3000
}

// isASCII reports whether s needs no Unicode tables.
func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// lookupPair finds r in a table of words that are a character and its mapping.
func lookupPair(table string, r rune) (string, bool) {
	var key [utf8.UTFMax + 1]byte
	key[0] = ' '
	n := utf8.EncodeRune(key[1:], r)
	at := 0
	if !strings.HasPrefix(table, string(key[1:1+n])) {
		at = strings.Index(table, string(key[:1+n]))
		if at < 0 {
			return "", false
		}
		at++
	}
	word := table[at+n:]
	if end := strings.IndexByte(word, ' '); end >= 0 {
		word = word[:end]
	}
	return word, true
}

// Upper is str.upper with full case mapping.
func Upper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	var b strings.Builder
	for _, r := range s {
		if r >= 0x80 {
			if full, ok := lookupPair(upperPairs, r); ok {
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

// IsLower, IsUpper and IsCased are Unicode's derived properties.
func IsLower(r rune) bool { return unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r) }

// IsUpper reports the derived property Uppercase.
func IsUpper(r rune) bool { return unicode.IsUpper(r) || unicode.Is(unicode.Other_Uppercase, r) }

// IsCased reports whether r has a case at all.
func IsCased(r rune) bool { return IsLower(r) || IsUpper(r) || unicode.IsTitle(r) }

// writeTitle writes the full title case of a character.
func writeTitle(b *strings.Builder, r rune) {
	if full, ok := lookupPair(titlePairs, r); ok && r >= 0x80 {
		b.WriteString(full)
		return
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
			if full, ok := lookupPair(foldPairs, r); ok && r >= 0x80 {
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

// inRuns reports whether r is in a table of runs.
func inRuns(runs [][2]rune, r rune) bool {
	for _, run := range runs {
		if r >= run[0] && r <= run[1] {
			return true
		}
	}
	return false
}

// IsDecimal, IsDigit, IsNumeric are Python's tests of one character.
func IsDecimal(r rune) bool { return unicode.Is(unicode.Nd, r) }

// IsDigit adds superscripts and circled digits to IsDecimal.
func IsDigit(r rune) bool { return IsDecimal(r) || inRuns(digitRuns, r) }

// IsNumeric adds fractions, Roman numerals and ideographs to IsDigit.
func IsNumeric(r rune) bool { return unicode.IsNumber(r) || inRuns(numericRuns, r) }

// IsWord is a character of the pattern \w.
func IsWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || IsNumeric(r) }

// IsTitleCased is str.istitle.
func IsTitleCased(s string) bool {
	cased, prev := false, false
	for _, r := range s {
		switch {
		case IsUpper(r) || unicode.IsTitle(r):
			if prev {
				return false
			}
			cased, prev = true, true
		case IsLower(r):
			if !prev {
				return false
			}
			cased, prev = true, true
		default:
			prev = false
		}
	}
	return cased
}

// HasCase reports islower (upper false) or isupper: cased letters exist and all
// are of that case.
func HasCase(s string, upper bool) bool {
	found := false
	for _, r := range s {
		lo, up := IsLower(r), IsUpper(r) || unicode.IsTitle(r)
		if upper && (lo || unicode.IsTitle(r)) || !upper && up {
			return false
		}
		found = found || lo || up
	}
	return found
}

// AllRunes reports whether s is not empty and every character passes.
func AllRunes(s string, pass func(rune) bool) bool {
	for _, r := range s {
		if !pass(r) {
			return false
		}
	}
	return s != ""
}

// IsIdentifier is str.isidentifier.
func IsIdentifier(s string) bool {
	for i, r := range s {
		start := r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r) || unicode.Is(unicode.Other_ID_Start, r)
		if start {
			continue
		}
		if i == 0 || !unicode.In(r, unicode.Nd, unicode.Mn, unicode.Mc, unicode.Pc, unicode.Other_ID_Continue) {
			return false
		}
	}
	return s != ""
}
