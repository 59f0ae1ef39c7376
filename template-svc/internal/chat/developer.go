package chat

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// mergeSystem puts all system messages into one at the front, as vLLM does once a developer message has become a
// system message: non-empty texts joined by a blank line, as plain text in both formats, without a name. A single
// system message that is first already stays as it is.
func mergeSystem(messages []value.Value) []value.Value {
	texts := make([]string, 0, 2)
	count := 0
	rest := make([]value.Value, 0, len(messages))
	for _, m := range messages {
		role, _ := value.Member(m, "role")
		if role.AsStr() != "system" {
			rest = append(rest, m)
			continue
		}
		count++
		if text := plainText(m); text != "" {
			texts = append(texts, text)
		}
	}
	if first, _ := value.Member(messages[0], "role"); count == 1 && first.AsStr() == "system" {
		return messages
	}
	merged := dictOf(pair{"role", value.Str("system")}, pair{"content", value.Str(strings.Join(texts, "\n\n"))})
	return append([]value.Value{merged}, rest...)
}

// plainText gives a message's text, parts joined by line ends.
func plainText(m value.Value) string {
	content, _ := value.Member(m, "content")
	if content.IsStr() {
		return content.AsStr()
	}
	if content.Kind() != value.KindList {
		return ""
	}
	joined, err := joinTexts(content.Cells())
	if err != nil {
		return ""
	}
	return joined.AsStr()
}
