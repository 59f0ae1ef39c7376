package chat

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// textMember names the member that holds the text of each part type that is text to vLLM.
func textMember(partType string) (name string, ok bool) {
	switch partType {
	case "text", "input_text", "output_text":
		return "text", true
	case "refusal":
		return "refusal", true
	case "thinking":
		return "thinking", true
	}
	return "", false
}

// mediaName gives what a template sees of a media part in the openai format.
func mediaName(partType string) (name string, ok bool) {
	switch partType {
	case "image_url", "input_image", "image_pil", "image_embeds":
		return "image", true
	case "input_audio", "audio_url", "audio_embeds":
		return "audio", true
	case "video_url", "video_embeds":
		return "video", true
	}
	return "", false
}

// parts gives a list of content parts in the template's format.
func (n *normaliser) parts(m value.Value, cells []value.Value, role string) (value.Value, error) {
	if standardRole(role) && onlyUnvalidated(cells) && !hasOwnKey(m) {
		return value.None, refuse("messages", "content parts are of no type that the request model knows")
	}
	made := make([]value.Value, 0, len(cells))
	allText := true
	for _, cell := range cells {
		part, isText, err := n.part(cell, role)
		if err != nil {
			return value.None, err
		}
		if part.IsUndefined() {
			continue
		}
		allText = allText && isText
		made = append(made, part)
	}
	if n.openai && (role != "tool" || !allText) {
		return value.List(made), nil
	}
	return joinParts(made)
}

// part normalises one part. An undefined result means that the part vanishes.
func (n *normaliser) part(cell value.Value, role string) (made value.Value, isText bool, err error) {
	if cell.IsStr() {
		return textPart(cell), true, nil
	}
	partType, ok := member(cell, "type")
	if !ok || !partType.IsStr() {
		return value.Value{}, false, refuse("messages", "every content part needs a type")
	}
	kind := partType.AsStr()
	if name, ok := textMember(kind); ok {
		return n.textOf(cell, kind, name, role), true, nil
	}
	if kind == "tool_reference" {
		name, ok := member(cell, "name")
		if !ok || !name.IsStr() {
			return value.Value{}, false, refuse("messages", "a tool_reference part needs a name")
		}
		return dictOf(pair{"type", partType}, pair{"name", name}), false, nil
	}
	if name, ok := mediaName(kind); ok {
		n.media++
		return dictOf(pair{"type", value.Str(name)}), false, nil
	}
	return value.Value{}, false, refuse("messages", "a content part has an unknown type")
}

// textOf makes the text part of one cell; null text vanishes. Members unknown to the API, such as cache_control, stay.
func (n *normaliser) textOf(cell value.Value, kind, name, role string) value.Value {
	text, ok := present(cell, name)
	if !ok {
		return value.Value{}
	}
	if role == "system" && text.IsStr() {
		cut := dropBillingLine(text.AsStr())
		if cut == "" && text.AsStr() != "" {
			return value.Value{}
		}
		text = value.Str(cut)
	}
	d := value.NewDict(cell.AsDict().Len())
	d.SetStr("type", value.Str("text"))
	d.SetStr("text", text)
	for _, e := range cell.AsDict().Entries() {
		if key := e.Key.AsStr(); key != "type" && key != name && (kind != "thinking" || key != "closed") {
			d.SetStr(key, e.Val)
		}
	}
	return value.OfDict(d)
}

// textPart wraps text.
func textPart(text value.Value) value.Value {
	return dictOf(pair{"type", value.Str("text")}, pair{"text", text})
}

// joinParts makes one text of text parts: joined by line ends, empty ones left out.
func joinParts(parts []value.Value) (value.Value, error) {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		text, ok := member(p, "text")
		if !ok {
			text, ok = member(p, "name")
		}
		if !ok {
			continue
		}
		if !text.IsStr() {
			return value.None, refuse("messages", "the text of a content part must be text")
		}
		if text.AsStr() != "" {
			texts = append(texts, text.AsStr())
		}
	}
	return value.Str(strings.Join(texts, "\n")), nil
}

// standardRole reports whether the request model has a message type of its own for role.
func standardRole(role string) bool { return safeRole(role) == role }

// onlyUnvalidated reports whether every part is one that the typed request model does not take: bare strings,
// input_text, output_text, or a null text. vLLM 0.32 answers such a list with 400.
func onlyUnvalidated(cells []value.Value) bool {
	for _, c := range cells {
		if c.IsStr() {
			continue
		}
		kind, _ := member(c, "type")
		if !kind.IsStr() {
			return false
		}
		switch kind.AsStr() {
		case "input_text", "output_text":
		case "text":
			if text, ok := member(c, "text"); !ok || !text.IsNone() {
				return false
			}
		default:
			return false
		}
	}
	return len(cells) > 0
}

// hasOwnKey reports whether a message has a member of vLLM's own, with which it is not held to OpenAI's types.
func hasOwnKey(m value.Value) bool {
	for _, key := range []string{"reasoning", "task"} {
		if _, ok := member(m, key); ok {
			return true
		}
	}
	return false
}
