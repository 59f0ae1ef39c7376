package value

import (
	"unicode"
	"unicode/utf8"
)

// Python's tests of characters, most of them thin on top of package
// unicode.

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

// IsLower, IsUpper and IsCased are Unicode's derived properties.
func IsLower(r rune) bool { return unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r) }

// IsUpper reports the derived property Uppercase.
func IsUpper(r rune) bool { return unicode.IsUpper(r) || unicode.Is(unicode.Other_Uppercase, r) }

// IsCased reports whether r has a case at all.
func IsCased(r rune) bool { return IsLower(r) || IsUpper(r) || unicode.IsTitle(r) }

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
