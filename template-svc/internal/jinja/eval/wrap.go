package eval

import (
	"strings"
	"unicode"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// This is textwrap with whitespace kept: lines are filled greedily with
// words, and longer words are broken.

// wrapper fills lines of at most width code points the way Python's textwrap
// does with whitespace kept as it is.
type wrapper struct {
	width     int
	breakLong bool
	hyphens   bool
}

// wrapSpace is the whitespace that textwrap breaks at.
func wrapSpace(r rune) bool { return strings.ContainsRune("\t\n\v\f\r ", r) }

// chunks cuts a line into words and whitespace; words break after hyphens
// between letters and around dashes if hyphens is set.
func (w *wrapper) chunks(line string) []string {
	var out []string
	for line != "" {
		end := strings.IndexFunc(line, func(r rune) bool { return !wrapSpace(r) })
		if end < 0 {
			return append(out, line)
		}
		if end > 0 {
			out = append(out, line[:end])
			line = line[end:]
		}
		end = strings.IndexFunc(line, wrapSpace)
		if end < 0 {
			end = len(line)
		}
		if w.hyphens {
			out = append(out, hyphenated(line[:end])...)
		} else {
			out = append(out, line[:end])
		}
		line = line[end:]
	}
	return out
}

// hyphenated cuts a word after each hyphen that has two letters before it and
// a letter pair after it, and around runs of two or more hyphens.
func hyphenated(word string) []string {
	rs := []rune(word)
	var out []string
	start := 0
	letter := func(i int) bool { return i >= 0 && i < len(rs) && (unicode.IsLetter(rs[i]) || rs[i] == '_') }
	wordish := func(i int) bool {
		return i >= 0 && i < len(rs) && (value.IsWord(rs[i]) || strings.ContainsRune(`!"'&.,?`, rs[i]))
	}
	for i := 0; i < len(rs); i++ {
		if rs[i] != '-' {
			continue
		}
		run := i
		for run < len(rs) && rs[run] == '-' {
			run++
		}
		switch {
		case run-i >= 2 && wordish(i-1) && run < len(rs) && value.IsWord(rs[run]):
			if i > start {
				out = append(out, string(rs[start:i]))
			}
			out = append(out, string(rs[i:run]))
			start = run
			i = run - 1
		case run-i == 1 && letter(i-1) && (letter(i-2) || i >= 3 && rs[i-2] == '-' && letter(i-3)) &&
			letter(i+1) && (letter(i+2) || i+3 < len(rs) && rs[i+2] == '-' && letter(i+3)):
			out = append(out, string(rs[start:run]))
			start = run
		default:
			i = run - 1
		}
	}
	if start < len(rs) {
		out = append(out, string(rs[start:]))
	}
	return out
}

// wrap fills the line's chunks into lines.
func (w *wrapper) wrap(line string) []string {
	chunks := w.chunks(line)
	var lines []string
	for len(chunks) > 0 {
		var cur []string
		size := 0
		if len(lines) > 0 && blankChunk(chunks[0]) {
			chunks = chunks[1:]
		}
		for len(chunks) > 0 && !longer(chunks[0], w.width-size) {
			size += value.RuneCount(chunks[0])
			cur = append(cur, chunks[0])
			chunks = chunks[1:]
		}
		if len(chunks) > 0 && longer(chunks[0], w.width) {
			cur, chunks, _ = w.long(cur, chunks, size)
		}
		if n := len(cur); n > 0 && blankChunk(cur[n-1]) {
			cur = cur[:n-1]
		}
		if len(cur) > 0 {
			lines = append(lines, strings.Join(cur, ""))
		}
	}
	return lines
}

// longer reports whether s has more than n code points, looking at no more.
func longer(s string, n int) bool { return n < 0 || value.Offset(s, n) < len(s) }

// blankChunk reports whether a chunk is nothing but whitespace.
func blankChunk(s string) bool { return value.Strip(s) == "" }

// long takes as much of a word that is longer than a line as fits.
func (w *wrapper) long(cur, chunks []string, size int) (line, rest []string, used int) {
	space := w.width - size
	if !w.breakLong {
		if len(cur) == 0 {
			return append(cur, chunks[0]), chunks[1:], size
		}
		return cur, chunks, size
	}
	word := chunks[0]
	end := value.Offset(word, space)
	if w.hyphens && longer(word, space) {
		if i := strings.LastIndexByte(word[:end], '-'); i > 0 && strings.Trim(word[:i], "-") != "" {
			end = i + 1
		}
	}
	cur = append(cur, word[:end])
	if end == len(word) {
		return cur, chunks[1:], size
	}
	chunks[0] = word[end:]
	return cur, chunks, size
}
