package api

import (
	"context"
	"net/http"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// chatCall is a chat request on its way.
type chatCall struct {
	*generation
	req        *request.Chat
	promptText string // rendered; "" if ids came with the request
	echoed     string // what echo puts in front of the answer
}

// chat serves POST /v1/chat/completions.
func (h *Handler) chat(w http.ResponseWriter, r *http.Request) {
	doc, raw := h.readBody(w, r)
	if doc == nil {
		return
	}
	req, bad := request.ParseChat(doc, raw)
	if bad != nil {
		writeError(w, bad)
		return
	}
	c := &chatCall{generation: &generation{h: h, common: &req.Common, chat: true}, req: req}
	if bad = c.open(r, "chatcmpl-"); bad != nil {
		writeError(w, bad)
		return
	}
	if err := c.begin(r.Context(), &doc.Root); err != nil {
		c.fail(w, err)
		return
	}
	h.holdFirstByte(r.Context())
	if req.Stream {
		c.stream(r.Context(), h.newSSE(w))
		return
	}
	if c.wait(r.Context()) {
		h.orca(w, r)
		writeJSON(w, http.StatusOK, c.body())
	}
}

// begin renders, tokenises and submits.
func (c *chatCall) begin(ctx context.Context, root *pyjson.Value) error {
	ids, err := c.prompt(ctx, root)
	if err != nil {
		return err
	}
	h, s := c.h, &c.req.Sampling
	limit := s.OutputLimit(len(ids), h.set.Limits.MaxModelLen, false, h.set.Limits)
	if bad := s.Verify(limit, h.set.Limits); bad != nil {
		return bad
	}
	c.prompts = [][]uint32{ids}
	last, lastRole := lastMessage(c.req.Messages)
	if c.req.Echo && lastRole == "assistant" {
		c.echoed = last
	}
	sc := script{
		prompt: ids, sampling: s, limit: limit, limited: c.req.Limit, model: c.model,
		thinking: h.set.ReasoningParser && c.req.Thinking, tools: c.req.Tools, choice: c.req.Choice,
	}
	if lastRole == "user" {
		sc.asked = last
	}
	if !h.set.ToolParser && sc.choice.Mode == request.ChooseAuto {
		sc.choice.Mode = request.ChooseNone
	}
	scripts := make([]*script, 0, s.N)
	for k := range s.N {
		one := sc
		one.index = k
		scripts = append(scripts, &one)
	}
	return c.start(ctx, scripts)
}

// prompt returns the token ids of the conversation: those that came with the request, or the rendered text's.
func (c *chatCall) prompt(ctx context.Context, root *pyjson.Value) ([]uint32, error) {
	h := c.h
	if !h.set.PromptIDs {
		c.req.PromptIDs = nil
	}
	if ids := c.req.PromptIDs; ids != nil {
		if bad := request.CheckVocab(ids, "kv_transfer_params.prompt_token_ids", h.set.Limits); bad != nil {
			return nil, bad
		}
		if limit := h.set.Limits.MaxModelLen; len(ids) > limit {
			return nil, request.Bad("Input length (%d) exceeds model's maximum context length (%d).", len(ids), limit)
		}
		return ids, nil
	}
	if c.req.Model == "" {
		c.req.Model = h.set.Model
	}
	if bad := c.req.CheckRender(root); bad != nil {
		return nil, bad
	}
	text, err := h.deps.Renderer.Render(ctx, c.req.Body)
	if err != nil {
		return nil, renderError(err)
	}
	c.promptText = string(text)
	ids, err := h.deps.Tokenizer.Encode(ctx, text, c.req.AddSpecial)
	if err != nil {
		return nil, err
	}
	if n := c.req.TruncatePrompt; n > 0 && n < len(ids) {
		ids = ids[len(ids)-n:]
	}
	if bad := h.tooLong(len(ids)); bad != nil {
		return nil, bad
	}
	return ids, nil
}

// lastMessage returns the text and role of the last message.
func lastMessage(msgs *pyjson.Value) (text, role string) {
	n := msgs.Len()
	if n == 0 {
		return "", ""
	}
	m := msgs.At(n - 1)
	body := m.Get("content")
	text = body.Str
	for i := range body.Len() {
		if body.Kind == pyjson.List {
			p := body.At(i)
			text += p.Get("text").Str
		}
	}
	return text, m.Get("role").Str
}

// body is the answer of a chat that is not streamed.
func (c *chatCall) body() []byte {
	dst := append(c.appendHead(make([]byte, 0, 1024), "chat.completion"), `,"choices":[`...)
	for i, s := range c.seqs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = c.appendChoice(dst, s)
	}
	dst = append(dst, `],"service_tier":null`...)
	dst = append(c.appendFingerprint(dst), ',')
	dst = append(c.appendUsage(dst), `,"prompt_logprobs":`...)
	dst = c.appendPromptLogprobs(dst, c.prompts[0])
	dst = appendIDs(append(dst, `,"prompt_token_ids":`...), c.prompts[0], c.common.ReturnTokenIDs)
	dst = c.appendPromptText(append(dst, `,"prompt_text":`...))
	return append(dst, `,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}`...)
}

// appendPromptText writes the rendered prompt if it was asked for; null too if the prompt came as ids.
func (c *chatCall) appendPromptText(dst []byte) []byte {
	if !c.req.ReturnPromptText || c.req.PromptIDs != nil {
		return append(dst, "null"...)
	}
	return appendString(dst, c.promptText)
}

// appendChoice writes one choice. A call counts only if it is whole; what max_tokens cut stays in content as raw
// text.
func (c *chatCall) appendChoice(dst []byte, s *sequence) []byte {
	n := s.seq.Produced()
	reason, stop := s.finish()
	m := s.plan.message(s.textUpTo(n))
	if len(m.calls) > 0 && reason == "stop" && c.req.Choice.Mode != request.ChooseNamed {
		reason = "tool_calls"
	}
	dst = appendInt(dst, `{"index":`, s.index)
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	if m.hasContent || c.echoed != "" {
		dst = appendString(dst, c.echoed+m.content)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"refusal":null,"annotations":null,"audio":null,"function_call":null`...)
	for i, call := range m.calls {
		dst = append(dst, [...]string{`,"tool_calls":[`, `,`}[min(i, 1)]...)
		dst = append(dst, `{"id":"chatcmpl-tool-`+randomHex(8)+`","type":"function","function":{"name":`...)
		dst = append(appendString(dst, call.name), `,"arguments":`...)
		dst = append(appendString(dst, call.arguments), `}}`...)
	}
	if len(m.calls) > 0 {
		dst = append(dst, ']')
	}
	dst = append(dst, `,"reasoning":`...)
	if m.reasoning != "" {
		dst = appendString(dst, m.reasoning)
	} else {
		dst = append(dst, "null"...)
	}
	dst = c.appendChatLogprobs(append(dst, `},"logprobs":`...), s, 0, n)
	dst = append(append(append(dst, `,"finish_reason":"`...), reason...), `","stop_reason":`...)
	dst = append(append(dst, stop...), `,"token_ids":`...)
	dst = appendIDs(dst, s.plan.ids[:n], c.common.ReturnTokenIDs)
	return append(dst, `,"routed_experts":null}`...)
}

// message is an assistant message taken apart.
type message struct {
	content    string
	hasContent bool
	reasoning  string
	calls      []toolCall
}

type toolCall struct{ name, arguments string }

// message takes apart the part of the plan's text that exists; calls count only when they are whole.
func (p *plan) message(text string) message {
	var m message
	for _, r := range p.regions {
		part := text[min(r.from, len(text)):min(r.to, len(text))]
		switch {
		case r.name != "":
			m.calls = append(m.calls, toolCall{name: r.name})
		case r.kind == content:
			m.content += part
			m.hasContent = true
		case r.kind == reasoning:
			m.reasoning += part
		case r.kind == arguments:
			m.calls[r.call].arguments += part
		}
	}
	if m.content == "" && (len(m.calls) > 0 || m.reasoning != "") {
		m.hasContent = false
	}
	return m
}
