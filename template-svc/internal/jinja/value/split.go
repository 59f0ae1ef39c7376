package value

import (
	"strings"
	"unicode/utf8"
)

// Lines end at more characters than "\n" in Python, and words at more than
// blanks.

// SplitSpace is str.split() with at most limit cuts from the left, all if negative. What is left after the last cut keeps
// its trailing whitespace.
func SplitSpace(s string, limit int) []string {
	var out []string
	for s = LStrip(s); s != ""; s = LStrip(s) {
		if limit == 0 {
			return append(out, s)
		}
		end := strings.IndexFunc(s, IsSpace)
		if end < 0 {
			return append(out, s)
		}
		out = append(out, s[:end])
		s = s[end:]
		limit--
	}
	return out
}

// RSplitSpace is str.rsplit() with at most limit cuts from the right. What is left keeps its leading whitespace.
func RSplitSpace(s string, limit int) []string {
	var out []string
	for s = RStrip(s); s != ""; s = RStrip(s) {
		if limit == 0 {
			out = append(out, s)
			break
		}
		at := strings.LastIndexFunc(s, IsSpace)
		if at < 0 {
			out = append(out, s)
			break
		}
		_, n := utf8.DecodeRuneInString(s[at:])
		out = append(out, s[at+n:])
		s = s[:at]
		limit--
	}
	reverse(out)
	return out
}

// reverse turns a slice round.
func reverse[T any](a []T) {
	for i, j := 0, len(a)-1; i < j; i, j = i+1, j-1 {
		a[i], a[j] = a[j], a[i]
	}
}

// RSplit is str.rsplit(sep, limit) for a separator that is not empty.
func RSplit(s, sep string, limit int) []string {
	var out []string
	for limit != 0 {
		at := strings.LastIndex(s, sep)
		if at < 0 {
			break
		}
		out = append(out, s[at+len(sep):])
		s = s[:at]
		limit--
	}
	out = append(out, s)
	reverse(out)
	return out
}

// lineEnd gives the length of a line end at the start of s, 0 if there is none.
func lineEnd(s string) int {
	switch c := s[0]; {
	case c == '\r':
		if len(s) > 1 && s[1] == '\n' {
			return 2
		}
		return 1
	case c >= '\n' && c <= '\f' || c >= 0x1c && c <= 0x1e:
		return 1
	case c == 0xc2 && strings.HasPrefix(s, "\u0085"):
		return 2
	case c == 0xe2 && (strings.HasPrefix(s, "\u2028") || strings.HasPrefix(s, "\u2029")):
		return 3
	}
	return 0
}

// SplitLines is str.splitlines.
func SplitLines(s string, keepEnds bool) []string {
	var out []string
	start := 0
	for i := 0; i < len(s); {
		n := lineEnd(s[i:])
		if n == 0 {
			i++
			continue
		}
		end := i
		if keepEnds {
			end += n
		}
		out = append(out, s[start:end])
		i += n
		start = i
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

// CountLines gives an upper bound of the parts of SplitLines.
func CountLines(s string) int {
	n := 1
	for i := range len(s) {
		if c := s[i]; c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c >= 0x80 && lineEnd(s[i:]) > 0 {
			n++
		}
	}
	return n
}

// CountSpaces gives an upper bound of the parts of SplitSpace, less one.
func CountSpaces(s string) int {
	n := 0
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0xc2 || c >= 0xe1 && c <= 0xe3 {
			n++
		}
	}
	return n
}
