package probe

import (
	"regexp"
	"strings"
)

// jinja finds tags, comments and what they print; quotedText the strings inside a tag.
var (
	jinja      = regexp.MustCompile(`(?s)\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}`)
	quotedText = regexp.MustCompile(`'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"`)
	escapes    = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\'`, "'", `\"`, `"`, `\\`, `\`)
)

// maxTemplateBytes bounds what is made of one template; the longest of the corpus has 25 KB.
const maxTemplateBytes = 64 << 10

// OfTemplate makes texts as the model's own chat template writes them: its text around messages in order, with lines of
// the corpus in the places of what it prints, and once more with nothing there. They hold every mark, role and line end
// that a rendered chat has, without running the template, which is another service's work. Nil for no template.
func OfTemplate(source string) [][]byte {
	if source == "" {
		return nil
	}
	source = source[:min(len(source), maxTemplateBytes)]
	lines := strings.Split(strings.TrimSpace(english), "\n")
	var filled, bare strings.Builder
	last, n := 0, 0
	for _, tag := range jinja.FindAllStringIndex(source, -1) {
		filled.WriteString(source[last:tag[0]])
		bare.WriteString(source[last:tag[0]])
		for _, m := range quotedText.FindAllStringSubmatch(source[tag[0]:tag[1]], -1) {
			text := escapes.Replace(m[1] + m[2])
			filled.WriteString(text)
			bare.WriteString(text)
		}
		if strings.HasPrefix(source[tag[0]:], "{{") {
			filled.WriteString(lines[n*11%len(lines)])
			n++
		}
		last = tag[1]
	}
	filled.WriteString(source[last:])
	bare.WriteString(source[last:])
	return [][]byte{[]byte(filled.String()), []byte(bare.String()), []byte(source)}
}
