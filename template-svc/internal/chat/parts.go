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

// parts gives a list of content parts in the template's format.
func (n *normaliser) parts(m value.Value, cells []value.Value, role string) (value.Value, error) {
	if onlyUnvalidated(cells) && !ownType(m, role) {
		return value.None, refuse("messages", "content parts are of no type that the request model knows")
	}
	if role == "system" {
		cells = dropBillingParts(cells)
	}
	if !n.openai {
		return n.joined(cells)
	}
	made := make([]value.Value, 0, len(cells))
	allText := true
	for _, cell := range cells {
		part, isText, err := n.part(cell)
		if err != nil {
			return value.None, err
		}
		if part.IsUndefined() {
			continue
		}
		allText = allText && isText
		made = append(made, part)
	}
	if role == "tool" && allText {
		return joinTexts(made)
	}
	return value.List(made), nil
}

// part gives what a template of the openai format sees of a part. An undefined result means that the part vanishes.
func (n *normaliser) part(cell value.Value) (made value.Value, isText bool, err error) {
	if cell.IsStr() {
		return textPart(cell), true, nil
	}
	kind, content, err := classify(cell)
	if err != nil {
		return value.None, false, err
	}
	if _, ok := textMember(kind); ok {
		if skipped(kind, content) {
			return value.Value{}, true, nil
		}
		return withExtras(textPart(content), cell), true, nil
	}
	if kind == "tool_reference" {
		return dictOf(pair{"type", value.Str(kind)}, pair{"name", content}), false, nil
	}
	item, err := n.item(kind, cell, content)
	if err != nil {
		return value.None, false, err
	}
	if n.mark {
		return textPart(value.Str(item.sentinel())), false, nil
	}
	return withExtras(dictOf(pair{"type", value.Str(string(item.modality))}), cell), false, nil
}

// joined gives the one text of a template in the string format.
func (n *normaliser) joined(cells []value.Value) (value.Value, error) {
	var c composer
	for _, cell := range cells {
		if cell.IsStr() {
			c.add(cell.AsStr())
			continue
		}
		kind, content, err := classify(cell)
		if err != nil {
			return value.None, err
		}
		if _, ok := textMember(kind); ok || kind == "tool_reference" {
			if !content.Truth() {
				continue
			}
			if !content.IsStr() {
				return value.None, refuse("messages", "the text of a content part must be text")
			}
			c.add(content.AsStr())
			continue
		}
		item, err := n.item(kind, cell, content)
		if err != nil {
			return value.None, err
		}
		c.place(item, n.interleave)
	}
	text, err := c.text(n.interleave)
	if err != nil {
		return value.None, err
	}
	if n.mark {
		text = c.marked(text)
	}
	return value.Str(text), nil
}

// classify gives a part's type and content. As in vLLM, a part without a type, or with a uuid of its own, is known by
// the member that holds its media.
func classify(cell value.Value) (kind string, content value.Value, err error) {
	partType, _ := value.Member(cell, "type")
	_, named := present(cell, "uuid")
	if !named && partType.IsStr() {
		return typed(partType.AsStr(), cell)
	}
	if !named && !partType.IsNone() {
		return "", value.None, refuse("messages", "the type of a content part must be text")
	}
	for _, kind := range []string{
		"image_url", "image_pil", "image_embeds", "audio_embeds", "video_embeds", "audio_url", "input_audio", "video_url",
	} {
		content, ok := value.Member(cell, kind)
		if !ok {
			continue
		}
		if url, ok := value.Member(content, "url"); ok {
			content = url
		}
		return kind, content, nil
	}
	if _, ok := value.Member(cell, "tool_reference"); ok {
		name, _ := value.Member(cell, "name")
		return "tool_reference", name, nil
	}
	return "", value.None, refuse("messages", "every content part needs a type")
}

// typed gives the content of a part that names its type.
func typed(kind string, cell value.Value) (string, value.Value, error) {
	if name, ok := textMember(kind); ok {
		content, _ := value.Member(cell, name)
		return kind, content, nil
	}
	switch kind {
	case "tool_reference":
		name, _ := value.Member(cell, "name")
		return kind, name, nil
	case "input_image":
		url, _ := value.Member(cell, "image_url")
		return kind, url, nil
	case "image_url", "audio_url", "video_url":
		object, _ := value.Member(cell, kind)
		url, ok := value.Member(object, "url")
		if !ok || !url.IsStr() {
			return "", value.None, refuse("messages", "a media part needs a url")
		}
		return kind, url, nil
	}
	if _, ok := modalityOf(kind); ok {
		content, _ := value.Member(cell, kind)
		return kind, content, nil
	}
	return "", value.None, refuse("messages", "a content part has an unknown type")
}

// skipped reports whether a text part vanishes: without text, where vLLM says so.
func skipped(kind string, content value.Value) bool {
	return content.IsNone() && (kind == "text" || kind == "refusal")
}

// withExtras adds the members of a part that the API does not know, such as cache_control.
func withExtras(part, cell value.Value) value.Value {
	if cell.Kind() != value.KindDict {
		return part
	}
	for _, e := range cell.AsDict().Entries() {
		if key := e.Key.AsStr(); !knownMember(key) {
			part.AsDict().SetStr(key, e.Val)
		}
	}
	return part
}

// knownMember reports whether a member belongs to one of the parts of vLLM's API.
func knownMember(key string) bool {
	switch key {
	case "type", "text", "refusal", "thinking", "closed", "name", "image_url", "input_audio", "audio_url", "video_url",
		"image_pil", "image_embeds", "audio_embeds", "video_embeds", "data", "file", "uuid", "prompt_cache_breakpoint":
		return true
	}
	return false
}

// dropBillingParts removes the billing line of dropBillingLine from text parts and bare strings.
func dropBillingParts(cells []value.Value) []value.Value {
	out := make([]value.Value, 0, len(cells))
	for _, cell := range cells {
		text, kind := cell, value.None
		if !cell.IsStr() {
			kind, _ = value.Member(cell, "type")
			text, _ = value.Member(cell, "text")
		}
		if !text.IsStr() || !strings.HasPrefix(text.AsStr(), billingPrefix) || (!cell.IsStr() && kind.AsStr() != "text") {
			out = append(out, cell)
			continue
		}
		rest := dropBillingLine(text.AsStr())
		if rest == "" {
			continue
		}
		if cell.IsStr() {
			out = append(out, value.Str(rest))
			continue
		}
		d := cell.AsDict().Clone()
		d.SetStr("text", value.Str(rest))
		out = append(out, value.OfDict(d))
	}
	return out
}

// textPart wraps text.
func textPart(text value.Value) value.Value {
	return dictOf(pair{"type", value.Str("text")}, pair{"text", text})
}

// joinTexts makes one text of text parts, joined by line ends.
func joinTexts(parts []value.Value) (value.Value, error) {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		text, ok := value.Member(p, "text")
		if !ok {
			continue
		}
		if !text.IsStr() {
			return value.None, refuse("messages", "the text of a content part must be text")
		}
		texts = append(texts, text.AsStr())
	}
	return value.Str(strings.Join(texts, "\n")), nil
}

// onlyUnvalidated reports whether every part is one that the typed request model does not take: bare strings,
// input_text, output_text, or a null text. vLLM 0.32 answers such a list with 400.
func onlyUnvalidated(cells []value.Value) bool {
	for _, c := range cells {
		if c.IsStr() {
			continue
		}
		kind, _ := value.Member(c, "type")
		if !kind.IsStr() {
			return false
		}
		switch kind.AsStr() {
		case "input_text", "output_text":
		case "text":
			if text, ok := value.Member(c, "text"); !ok || !text.IsNone() {
				return false
			}
		default:
			return false
		}
	}
	return len(cells) > 0
}
