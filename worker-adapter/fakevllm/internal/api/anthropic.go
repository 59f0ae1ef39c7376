package api

import (
	"context"
	"net/http"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// fromAnthropic turns a body of /v1/messages into that of a chat request: text blocks, the system text and the options
// that both have. Blocks of other kinds keep their text only.
func fromAnthropic(root *pyjson.Value) []byte {
	dst := []byte(`{"messages":[`)
	if sys := root.Get("system"); !sys.IsNull() {
		dst = append(append(dst, `{"role":"system","content":`...), sys.Raw...)
		dst = append(dst, "},"...)
	}
	list := root.Get("messages")
	for i := range list.Len() {
		m := list.At(i)
		dst = appendString(append(dst, `{"role":`...), m.Get("role").Str)
		dst = append(append(dst, `,"content":`...), m.Get("content").Raw...)
		dst = append(dst, "},"...)
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	dst = append(dst, ']')
	for _, key := range [...]string{
		"model", "max_tokens", "temperature", "top_p", "top_k", "stream", "kv_transfer_params",
	} {
		dst = appendField(dst, key, root.Get(key))
	}
	return append(appendField(dst, "stop", root.Get("stop_sequences")), '}')
}

// writeAnthropicError answers in Anthropic's error shape, with vLLM's own type names.
func writeAnthropicError(w http.ResponseWriter, e *request.Error) {
	dst := appendString([]byte(`{"type":"error","error":{"type":`), e.Type)
	writeJSON(w, e.Status, append(appendString(append(dst, `,"message":`...), e.Message), "}}"...))
}

// messages serves POST /v1/messages.
func (h *Handler) messages(w http.ResponseWriter, r *http.Request) {
	doc, _ := h.readBody(w, r)
	if doc == nil {
		return
	}
	c, bad := h.chatFrom(r, fromAnthropic(&doc.Root), true)
	if bad != nil {
		writeAnthropicError(w, bad)
		return
	}
	h.holdFirstByte(r.Context())
	if c.common.Stream {
		c.streamMessage(r.Context(), h.newSSE(w))
		return
	}
	if c.wait(r.Context()) {
		writeJSON(w, http.StatusOK, c.anthropicBody())
	}
}

// anthropicStop maps finish reasons.
func anthropicStop(reason string) string {
	switch reason {
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	}
	return "end_turn"
}

// anthropicBody is a message of content blocks: a thought, a text, or both.
func (c *chatCall) anthropicBody() []byte {
	s := c.seqs[0]
	reason, _ := s.finish()
	m := s.plan.message(s.textUpTo(s.seq.Produced()))
	dst := appendString([]byte(`{"id":`), c.id)
	dst = append(dst, `,"type":"message","role":"assistant","content":[`...)
	if m.reasoning != "" {
		dst = appendString(append(dst, `{"type":"thinking","thinking":`...), m.reasoning)
		dst = append(dst, `,"signature":"`+randomHex(16)+`"}`...)
	}
	if m.content != "" {
		if m.reasoning != "" {
			dst = append(dst, ',')
		}
		dst = append(appendString(append(dst, `{"type":"text","text":`...), m.content), '}')
	}
	dst = appendString(append(dst, `],"model":`...), c.model)
	dst = appendString(append(dst, `,"stop_reason":`...), anthropicStop(reason))
	return append(c.appendAnthropicUsage(append(dst, ',')), '}')
}

// appendAnthropicUsage writes the usage in Anthropic's terms; cache reads are the hit, creations the newly cached
// tokens.
func (c *chatCall) appendAnthropicUsage(dst []byte) []byte {
	u := c.usage()
	dst = appendInt(dst, `"usage":{"input_tokens":`, u.prompt)
	dst = appendInt(dst, `,"output_tokens":`, u.completion)
	dst = appendInt(dst, `,"cache_creation_input_tokens":`, u.created)
	return append(appendInt(dst, `,"cache_read_input_tokens":`, u.cached), '}')
}

// streamMessage relays a message as named events, one content block per run of thought or answer.
func (c *chatCall) streamMessage(ctx context.Context, out *sse) {
	dst := appendString(append(named(out.buf, "message_start"), `{"type":"message_start","message":{"id":`...), c.id)
	dst = appendString(append(dst, `,"type":"message","role":"assistant","content":[],"model":`...), c.model)
	dst = appendInt(dst, `,"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":`, len(c.prompts[0]))
	out.buf = append(dst, `,"output_tokens":0}}}`+"\n\n"...)
	out.event()
	block := -1
	event := func(name, body, text, tail string) {
		d := append(named(out.buf, name), body...)
		if tail != "" {
			d = append(appendString(d, text), tail...)
		}
		out.buf = append(appendInt(d, `,"index":`, block), "}\n\n"...)
		out.event()
	}
	words := map[regionKind][2]string{
		reasoning: {`{"type":"thinking","thinking":""}`, `{"type":"thinking_delta","thinking":`},
		content:   {`{"type":"text","text":""}`, `{"type":"text_delta","text":`},
	}
	open := func(s segment) {
		block++
		event("content_block_start", `{"type":"content_block_start","content_block":`+words[s.kind][0], "", "")
	}
	more := func(s segment) {
		event("content_block_delta", `{"type":"content_block_delta","delta":`+words[s.kind][1], s.text, "}")
	}
	shut := func(s segment) {
		if s.kind == reasoning {
			event("content_block_delta", `{"type":"content_block_delta","delta":{"type":"signature_delta","signature":`,
				randomHex(16), "}")
		}
		event("content_block_stop", `{"type":"content_block_stop"`, "", "")
	}
	if !c.segments(ctx, out, runs{open, more, shut}) {
		return
	}
	reason, _ := c.seqs[0].finish()
	dst = appendString(append(named(out.buf, "message_delta"), `{"type":"message_delta","delta":{"stop_reason":`...),
		anthropicStop(reason))
	out.buf = append(c.appendAnthropicUsage(append(dst, `,"stop_sequence":null},`...)), "}\n\n"...)
	out.event()
	out.buf = append(named(out.buf, "message_stop"), `{"type":"message_stop"}`+"\n\n"...)
	out.event()
}
