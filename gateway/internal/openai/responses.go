package openai

// ResponsesConversation is the chat that vLLM 0.32 makes of a Responses request. ok is false where that cannot be told
// here: a stored response is continued, tools, calls and their results, reasoning items, media, partial messages, prompts
// by reference, and whatever vLLM refuses. Models in the Harmony format have rules of their own, which are not these.
func (q *Request) ResponsesConversation() (c *Conversation, ok bool) {
	m := &converter{}
	top := m.members(q.Doc, "instructions", "input", "reasoning", "chat_template_kwargs", "tools",
		"previous_response_id", "previous_input_messages", "prompt", "conversation")
	instructions, input, reasoning, kwargs, tools := top[0], top[1], top[2], top[3], top[4]
	for _, stored := range top[5:] {
		m.unknown = m.unknown || present(stored)
	}
	if present(tools) && len(m.items(tools)) > 0 {
		m.unknown = true
	}
	if text := m.text(instructions); text != "" {
		b := turn("system")
		b.text("content", &text)
		m.add(b)
	}
	switch {
	case present(input) && input[0] == '"':
		b := turn("user")
		b.raw("content", input)
		m.add(b)
	default:
		for _, item := range m.items(input) {
			m.item(item)
		}
	}
	c = &Conversation{Messages: m.list(m.messages)}
	if present(kwargs) {
		c.Kwargs = kwargs
	}
	if present(reasoning) {
		c.ReasoningEffort = m.optional(m.members(reasoning, "effort")[0])
	}
	return c, !m.unknown
}

// optional is a string, nil for null and absent.
func (m *converter) optional(raw []byte) *string {
	if !present(raw) {
		return nil
	}
	text := m.text(raw)
	return &text
}

// item takes one message of the input. Of an assistant's parts vLLM takes the first one's text.
func (m *converter) item(raw []byte) {
	v := m.members(raw, "type", "role", "content", "status")
	kind, role, content := m.text(v[0]), m.text(v[1]), v[2]
	status := m.text(v[3])
	if kind != "" && kind != "message" || status != "" && status != "completed" || !present(content) {
		m.unknown = true
		return
	}
	b := turn(role)
	switch role {
	case "user", "system", "developer", "assistant":
	default:
		m.unknown = true
	}
	if content[0] == '"' {
		b.raw("content", content)
		m.add(b)
		return
	}
	texts := m.parts(content, role == "assistant")
	if role == "assistant" {
		if len(texts) != 1 {
			m.unknown = true
			return
		}
		b.text("content", &texts[0])
	} else {
		b.raw("content", m.textParts(texts))
	}
	m.add(b)
}

// parts is the texts of a message's parts.
func (m *converter) parts(raw []byte, output bool) (texts []string) {
	want := "input_text"
	if output {
		want = "output_text"
	}
	for _, part := range m.items(raw) {
		v := m.members(part, "type", "text")
		if m.text(v[0]) != want || !present(v[1]) {
			m.unknown = true
			return nil
		}
		texts = append(texts, m.text(v[1]))
	}
	m.unknown = m.unknown || len(texts) == 0
	return texts
}
