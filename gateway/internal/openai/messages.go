package openai

import (
	"strings"

	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

// Conversation is a chat as vLLM makes it of a request of another API, in the parts that decide its prompt. Members are
// JSON, nil where there is none.
type Conversation struct {
	Messages, Tools, ToolChoice, Kwargs []byte
	// ReasoningEffort is nil for none.
	ReasoningEffort *string
}

// billingPrefix begins system texts of Anthropic's clients that change with every request; vLLM leaves them out.
const billingPrefix = "x-anthropic-billing-header"

// MessagesConversation is the chat that vLLM 0.32 makes of a Messages request. ok is false where that cannot be told here:
// images, system messages among the others (they move to the front where the template wants them there), tools that are
// added or removed on the way, thinking that is disabled (the effort for that is probed per model), calls without an id
// (they get the time), and whatever vLLM refuses.
func (q *Request) MessagesConversation() (c *Conversation, ok bool) {
	m := &converter{}
	top := m.members(q.Doc, "system", "messages", "tools", "tool_choice", "chat_template_kwargs", "output_config", "thinking")
	system, messages, tools, choice, kwargs, output, thinking := top[0], top[1], top[2], top[3], top[4], top[5], top[6]
	m.system(system)
	for _, one := range m.items(messages) {
		m.message(one)
	}
	c = &Conversation{Messages: m.list(m.messages), Tools: m.tools(tools), ToolChoice: m.choice(choice, tools)}
	if c.Tools == nil {
		c.ToolChoice = nil // vLLM sets it behind its own check, which refuses a choice without tools; nothing renders it
	}
	if present(kwargs) {
		c.Kwargs = kwargs
	}
	if present(output) {
		c.ReasoningEffort = m.optional(m.members(output, "effort")[0])
	}
	if present(thinking) && m.text(m.members(thinking, "type")[0]) == "disabled" {
		m.unknown = true
	}
	return c, !m.unknown
}

// converter builds the chat; unknown is set by the first thing that it cannot tell.
type converter struct {
	unknown  bool
	messages [][]byte
}

// scannedDepth bounds the nesting of what Scan has read, and bounded, already.
const scannedDepth = 1 << 20

// present tells whether a member is there and not null.
func present(raw []byte) bool { return len(raw) > 0 && raw[0] != 'n' }

// members is the values of an object's members by name, nil for those that it does not have. The last one of a name
// counts.
func (m *converter) members(raw []byte, names ...string) [][]byte {
	out := make([][]byte, len(names))
	r, err := jsontext.NewReader(raw, scannedDepth)
	if err != nil || r.Peek() != jsontext.Object {
		m.unknown = true
		return out
	}
	_, err = r.Object(func(name jsontext.Name) error {
		v, err := r.Skip()
		for i, n := range names {
			if err == nil && name.Is(n) {
				out[i] = v.Text(raw)
			}
		}
		return err
	})
	m.unknown = m.unknown || err != nil
	return out
}

// items is a list's values.
func (m *converter) items(raw []byte) (out [][]byte) {
	r, err := jsontext.NewReader(raw, scannedDepth)
	if err != nil || r.Peek() != jsontext.Array {
		m.unknown = true
		return nil
	}
	_, err = r.Array(func(int) error {
		v, err := r.Skip()
		if err == nil {
			out = append(out, v.Text(raw))
		}
		return err
	})
	m.unknown = m.unknown || err != nil
	return out
}

// text is a string's content; null and absent are empty.
func (m *converter) text(raw []byte) string {
	switch {
	case !present(raw):
		return ""
	case raw[0] != '"':
		m.unknown = true
		return ""
	}
	return jsontext.StringOf(raw, jsontext.Value{Kind: jsontext.String, End: len(raw)})
}

func (m *converter) list(items [][]byte) []byte {
	out := []byte{'['}
	for i, one := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, one...)
	}
	return append(out, ']')
}

// closed is a finished object.
func (m *converter) closed(b *builder) []byte {
	m.unknown = m.unknown || b.err != nil
	return append(b.b, '}')
}

func (m *converter) add(b *builder) { m.messages = append(m.messages, m.closed(b)) }

// turn begins a message.
func turn(role string) *builder {
	b := newBuilder()
	b.text("role", &role)
	return b
}

// system joins the system texts without anything between them.
func (m *converter) system(raw []byte) {
	if !present(raw) {
		return
	}
	var text strings.Builder
	if raw[0] == '"' {
		text.WriteString(m.text(raw))
	} else {
		for _, block := range m.items(raw) {
			v := m.members(block, "type", "text")
			if part := m.text(v[1]); m.text(v[0]) == "text" && !strings.HasPrefix(part, billingPrefix) {
				text.WriteString(part)
			}
		}
	}
	if text.Len() > 0 {
		b, all := turn("system"), text.String()
		b.text("content", &all)
		m.add(b)
	}
}

// message adds one turn, after the results of tools that it holds.
func (m *converter) message(raw []byte) {
	v := m.members(raw, "role", "content")
	role, content := m.text(v[0]), v[1]
	if role != "user" && role != "assistant" || !present(content) {
		m.unknown = true
		return
	}
	b := turn(role)
	if content[0] == '"' {
		b.raw("content", content)
		m.add(b)
		return
	}
	t := &turnBlocks{role: role}
	for _, block := range m.items(content) {
		m.block(t, block)
	}
	switch {
	case len(t.texts) == 1:
		b.text("content", &t.texts[0])
	case len(t.texts) > 1:
		b.raw("content", m.textParts(t.texts))
	case role == "user":
		return
	}
	if t.thought {
		b.text("reasoning", &t.thinking)
	}
	if len(t.calls) > 0 {
		b.raw("tool_calls", m.list(t.calls))
	}
	m.add(b)
}

// textParts is a message's content of several texts.
func (m *converter) textParts(texts []string) []byte {
	parts := make([][]byte, len(texts))
	for i := range texts {
		part := newBuilder()
		part.named("type", "text")
		part.text("text", &texts[i])
		parts[i] = m.closed(part)
	}
	return m.list(parts)
}

// turnBlocks collects what the blocks of one turn become.
type turnBlocks struct {
	role     string
	texts    []string
	calls    [][]byte
	thinking string
	thought  bool
}

// block takes one content block.
func (m *converter) block(t *turnBlocks, raw []byte) {
	v := m.members(raw, "type", "text", "thinking", "id", "name", "input", "tool_use_id", "content")
	switch m.text(v[0]) {
	case "text":
		if text := m.text(v[1]); text != "" {
			t.texts = append(t.texts, text)
		}
	case "thinking":
		if present(v[2]) {
			t.thinking, t.thought = t.thinking+m.text(v[2]), true
		}
	case "redacted_thinking", "tool_reference":
	case "tool_use":
		t.calls = append(t.calls, m.call(v[3], v[4], v[5]))
	case "tool_result":
		if t.role == "user" {
			m.result(v[6], v[7])
			return
		}
		t.texts = append(t.texts, "Tool result: "+m.text(v[7])) // a list would be told in Python's spelling
	default:
		m.unknown = true
	}
}

// call is a tool call; its arguments are parsed again before the template sees them.
func (m *converter) call(id, name, input []byte) []byte {
	callID, function := m.text(id), m.text(name)
	if callID == "" || present(input) && input[0] != '{' {
		m.unknown = true
	}
	if !present(input) {
		input = []byte("{}")
	}
	f := newBuilder()
	f.text("name", &function)
	f.raw("arguments", input)
	b := newBuilder()
	b.text("id", &callID)
	b.named("type", "function")
	b.raw("function", m.closed(f))
	return m.closed(b)
}

// result is a tool's answer, a message of its own before the turn that holds it.
func (m *converter) result(id, content []byte) {
	var text string
	if !present(content) || content[0] == '"' {
		text = m.text(content)
	} else {
		var parts []string
		for _, item := range m.items(content) {
			v := m.members(item, "type", "text")
			switch m.text(v[0]) {
			case "text":
				parts = append(parts, m.text(v[1]))
			case "image", "tool_reference":
				m.unknown = true
			}
		}
		text = strings.Join(parts, "\n")
	}
	b, call := turn("tool"), m.text(id)
	b.text("tool_call_id", &call)
	b.text("content", &text)
	m.add(b)
}

// tools is the list of function definitions.
func (m *converter) tools(raw []byte) []byte {
	if !present(raw) {
		return nil
	}
	list := m.items(raw)
	if len(list) == 0 {
		m.unknown = true
	}
	out := make([][]byte, len(list))
	for i, tool := range list {
		v := m.members(tool, "name", "description", "input_schema", "strict", "defer_loading")
		name := m.text(v[0])
		f := newBuilder()
		f.text("name", &name)
		if present(v[1]) {
			f.raw("description", v[1])
		}
		f.raw("parameters", m.schema(v[2]))
		if present(v[3]) {
			f.raw("strict", v[3])
		}
		if present(v[4]) {
			f.raw("defer_loading", v[4])
		}
		b := newBuilder()
		b.named("type", "function")
		b.raw("function", m.closed(f))
		out[i] = m.closed(b)
	}
	return m.list(out)
}

// schema adds the type "object" at the end of a schema without a type.
func (m *converter) schema(raw []byte) []byte {
	if m.members(raw, "type")[0] != nil || m.unknown {
		return raw
	}
	open := raw[:len(raw)-1]
	out := append(make([]byte, 0, len(raw)+20), open...)
	if strings.TrimRight(string(open), " \t\r\n") != "{" {
		out = append(out, ',')
	}
	return append(out, `"type":"object"}`...)
}

// choice is the tool choice; without one it is left to the model.
func (m *converter) choice(raw, tools []byte) []byte {
	if !present(raw) {
		if present(tools) {
			return []byte(`"auto"`)
		}
		return nil
	}
	v := m.members(raw, "type", "name")
	switch m.text(v[0]) {
	case "auto":
		return []byte(`"auto"`)
	case "any":
		return []byte(`"required"`)
	case "none":
		return []byte(`"none"`)
	case "tool":
		return append(append([]byte(`{"type":"function","function":{"name":`), jsontext.Quote(m.text(v[1]))...), "}}"...)
	}
	m.unknown = true
	return nil
}
