package eval

import (
	"regexp"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// pprint breaks long texts between words and puts the parts under one
// another.

// wordPattern cuts a line into words with the whitespace after them.
var wordPattern = regexp.MustCompile(`[^\s]*\s*`)

// wordSteps is the work of cutting a byte of text into words that fill lines: some 200 ns.
const wordSteps = 4

// text writes a long text as several literals under one another.
func (w *pretty) text(s string, indent, allowance, level int) error {
	if err := w.r.m.Work(wordSteps * len(s)); err != nil {
		return err
	}
	if level == 1 {
		indent++
		allowance++
	}
	width := prettyWidth - indent
	var chunks []string
	lines := value.SplitLines(s, true)
	for i, line := range lines {
		rep := value.ReprString(line)
		last := i == len(lines)-1
		room := width
		if last {
			room -= allowance
		}
		if value.RuneCount(rep) <= room {
			chunks = append(chunks, rep)
			continue
		}
		chunks = append(chunks, textChunks(line, width, allowance, last)...)
	}
	open, end := "", ""
	if level == 1 && len(chunks) > 1 {
		open, end = "(", ")"
	}
	if err := w.p.Write(open); err != nil {
		return err
	}
	for i, c := range chunks {
		if i > 0 {
			if err := w.line(indent); err != nil {
				return err
			}
		}
		if err := w.p.Write(c); err != nil {
			return err
		}
	}
	return w.p.Write(end)
}

// textChunks breaks one line of a text between words.
func textChunks(line string, width, allowance int, last bool) []string {
	var chunks []string
	parts := wordPattern.FindAllString(line, -1)
	cur, size := "", 2
	for j, part := range parts {
		if part == "" {
			continue
		}
		room := width
		if last && j == len(parts)-1 {
			room -= allowance
		}
		n := value.RuneCount(value.ReprString(part)) - 2
		if size+n > room {
			if cur != "" {
				chunks = append(chunks, value.ReprString(cur))
			}
			cur, size = part, n+2
		} else {
			cur += part
			size += n
		}
	}
	if cur != "" {
		chunks = append(chunks, value.ReprString(cur))
	}
	return chunks
}
