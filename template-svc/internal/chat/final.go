package chat

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// finalTag is what transformers appends to the last message to find its end in the rendered text.
const finalTag = "CONTINUE_FINAL_MESSAGE_TAG "

// markFinal appends the tag to the last message's content or to its last text part. It gives the conversation with the
// marked message and the text before the tag.
func markFinal(messages []value.Value) (marked []value.Value, final string, err error) {
	last := messages[len(messages)-1]
	content, _ := value.Member(last, "content")
	var tagged value.Value
	switch {
	case content.IsStr():
		final = content.AsStr()
		tagged = value.Str(final + finalTag)
	case content.Kind() == value.KindList:
		tagged, final, err = markParts(content.Cells())
		if err != nil {
			return nil, "", err
		}
	default:
		return nil, "", refuse("messages", "the final message has no text to continue")
	}
	d := value.NewDict(last.AsDict().Len())
	for _, e := range last.AsDict().Entries() {
		if e.Key.AsStr() == "content" {
			d.SetStr("content", tagged)
			continue
		}
		d.SetStr(e.Key.AsStr(), e.Val)
	}
	marked = append(append(make([]value.Value, 0, len(messages)), messages[:len(messages)-1]...), value.OfDict(d))
	return marked, final, nil
}

// markParts appends the tag to the last text part.
func markParts(cells []value.Value) (tagged value.Value, final string, err error) {
	for i := len(cells) - 1; i >= 0; i-- {
		text, ok := value.Member(cells[i], "text")
		if !ok || !text.IsStr() {
			continue
		}
		part := value.NewDict(cells[i].AsDict().Len())
		for _, e := range cells[i].AsDict().Entries() {
			part.SetStr(e.Key.AsStr(), e.Val)
		}
		part.SetStr("text", value.Str(text.AsStr()+finalTag))
		out := append([]value.Value(nil), cells...)
		out[i] = value.OfDict(part)
		return value.List(out), text.AsStr(), nil
	}
	return value.None, "", refuse("messages", "the final message has no text to continue")
}

// cutFinal ends the prompt at the last tag. Where the template has stripped the tag's blank, it has stripped the
// message, so white space before the tag goes too.
func cutFinal(text []byte, final string) ([]byte, error) {
	bare := []byte(strings.TrimSpace(finalTag))
	at := bytes.LastIndex(text, bare)
	if at < 0 || !bytes.Contains(text, []byte(strings.TrimSpace(final))) {
		return nil, refuse("continue_final_message", "the template does not print the final message as it is")
	}
	if bytes.HasPrefix(text[at:], []byte(finalTag)) {
		return text[:at], nil
	}
	return bytes.TrimRightFunc(text[:at], unicode.IsSpace), nil
}
