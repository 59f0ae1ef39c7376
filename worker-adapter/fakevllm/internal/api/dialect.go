package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// otherDialects are the routes that mean a chat and say it in another shape: Anthropic's messages, OpenAI's responses,
// vLLM's batches. Each turns its body into that of a chat request.
func (h *Handler) otherDialects(t map[string]route) {
	t["/v1/messages"] = route{post: h.messages, generates: true}
	t["/v1/messages/count_tokens"] = route{post: h.countTokens}
	t["/v1/responses"] = route{post: h.responses, generates: true}
	t["/v1/chat/completions/batch"] = route{post: h.chatBatch, generates: true}
}

// chatFrom parses and submits a chat body that another dialect was turned into.
func (h *Handler) chatFrom(r *http.Request, body []byte, submit bool) (*chatCall, *request.Error) {
	doc, err := pyjson.Parse(body)
	if err != nil {
		return nil, request.Bad("%s", err.Error())
	}
	req, bad := request.ParseChat(doc, body)
	if bad != nil {
		return nil, bad
	}
	c := &chatCall{generation: &generation{h: h, common: &req.Common, chat: true}, req: req}
	if bad = c.open(r, "chatcmpl-"); bad != nil {
		return nil, bad
	}
	if !submit {
		ids, err := c.prompt(r.Context(), &doc.Root)
		if err != nil {
			return nil, h.asError(err)
		}
		c.prompts = [][]uint32{ids}
		return c, nil
	}
	if err := c.begin(r.Context(), &doc.Root); err != nil {
		return nil, h.asError(err)
	}
	return c, nil
}

// appendField writes a key and the raw value of a field that is set.
func appendField(dst []byte, key string, v *pyjson.Value) []byte {
	if v.IsNull() {
		return dst
	}
	return append(append(append(append(dst, ',', '"'), key...), '"', ':'), v.Raw...)
}

// chatBatch runs several conversations as one request; its usage has no details.
func (h *Handler) chatBatch(w http.ResponseWriter, r *http.Request) {
	doc, _ := h.readBody(w, r)
	if doc == nil {
		return
	}
	var all *chatCall
	var scripts []*script
	list := doc.Root.Get("messages")
	for i := range list.Len() {
		conversation := list.At(i)
		body := append([]byte(`{"messages":`), conversation.Raw...)
		for _, m := range doc.Root.Members {
			if m.Key != "messages" && m.Key != "stream" {
				body = appendField(body, m.Key, &m.Value)
			}
		}
		c, bad := h.chatFrom(r, append(body, '}'), false)
		if bad != nil {
			writeError(w, bad)
			return
		}
		s := &c.req.Sampling
		limit := s.OutputLimit(len(c.prompts[0]), h.set.Limits.MaxModelLen, false, h.set.Limits)
		if bad := s.Verify(limit, h.set.Limits); bad != nil {
			writeError(w, bad)
			return
		}
		scripts = append(scripts, &script{
			prompt: c.prompts[0], sampling: s, limit: limit, limited: c.req.Limit, model: c.model,
			thinking: h.set.ReasoningParser && c.req.Thinking,
		})
		if all == nil {
			all = c
			continue
		}
		all.prompts = append(all.prompts, c.prompts[0])
	}
	if all == nil {
		writeError(w, request.Bad("messages must hold at least one conversation"))
		return
	}
	if err := all.start(r.Context(), scripts); err != nil {
		all.fail(w, err)
		return
	}
	if all.wait(r.Context()) {
		writeJSON(w, http.StatusOK, all.batchBody())
	}
}

// batchBody is the chat body with one choice per conversation.
func (c *chatCall) batchBody() []byte {
	dst := append(c.appendHead(nil, "chat.completion"), `,"choices":[`...)
	for i, s := range c.seqs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = c.appendChoice(dst, s)
	}
	dst = append(c.appendFingerprint(append(dst, `],"service_tier":null`...)), `,"usage":`...)
	u := c.usage()
	dst = appendInt(dst, `{"prompt_tokens":`, u.prompt)
	dst = appendInt(dst, `,"total_tokens":`, u.prompt+u.completion)
	dst = appendInt(dst, `,"completion_tokens":`, u.completion)
	return append(dst, `,"prompt_tokens_details":null,"completion_tokens_details":null},"prompt_logprobs":null,`+
		`"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}`...)
}

// segment is a run of thought or answer in a streamed message.
type segment struct {
	kind regionKind
	text string
}

// runs are what a dialect does at the start of a run of text, with each further piece of it, and at its end, when it
// gets the whole text of the run.
type runs struct{ open, more, shut func(segment) }

// segments lets a dialect relay a message as runs of thought and answer; false if the stream broke.
func (c *chatCall) segments(ctx context.Context, out *sse, do runs) bool {
	var run *segment
	emit := func(p part) {
		d := p.s.plan.delta(len(p.s.textUpTo(p.from)), len(p.s.textUpTo(p.to)))
		for _, piece := range [...]segment{{reasoning, d.reasoning}, {content, d.content}} {
			if piece.text == "" {
				continue
			}
			if run != nil && run.kind != piece.kind {
				do.shut(*run)
				run = nil
			}
			if run == nil {
				run = &segment{kind: piece.kind}
				do.open(*run)
			}
			run.text += piece.text
			do.more(piece)
		}
	}
	ok := c.relay(ctx, out, emit)
	if ok && run != nil {
		do.shut(*run)
	}
	return ok
}

// named begins an event with a name.
func named(dst []byte, name string) []byte {
	return append(append(append(dst, "event: "...), name...), "\ndata: "...)
}

// countTokens renders and tokenises without running anything.
func (h *Handler) countTokens(w http.ResponseWriter, r *http.Request) {
	doc, _ := h.readBody(w, r)
	if doc == nil {
		return
	}
	c, bad := h.chatFrom(r, fromAnthropic(&doc.Root), false)
	if bad != nil {
		writeAnthropicError(w, bad)
		return
	}
	n := strconv.Itoa(len(c.prompts[0]))
	writeJSON(w, http.StatusOK, []byte(`{"input_tokens":`+n+`,"context_management":{"original_input_tokens":`+n+`}}`))
}
