package api

import (
	"context"
	"net/http"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// defaultMaxTokens is OpenAI's default for completions, which vLLM keeps.
const defaultMaxTokens = 16

// completions serves POST /v1/completions.
func (h *Handler) completions(w http.ResponseWriter, r *http.Request) {
	doc, _ := h.readBody(w, r)
	if doc == nil {
		return
	}
	req, bad := request.ParseCompletion(doc)
	if bad != nil {
		writeError(w, bad)
		return
	}
	g := &generation{h: h, common: &req.Common}
	if bad = g.open(r, "cmpl-"); bad != nil {
		writeError(w, bad)
		return
	}
	scripts, err := g.completionScripts(r.Context(), req)
	if err == nil {
		err = g.start(r.Context(), scripts)
	}
	if err != nil {
		g.fail(w, err)
		return
	}
	h.holdFirstByte(r.Context())
	if req.Stream {
		g.streamCompletion(r.Context(), h.newSSE(w))
		return
	}
	if g.wait(r.Context()) {
		h.orca(w, r)
		writeJSON(w, http.StatusOK, g.completionBody())
	}
}

// open gives the request its id, rank and model.
func (g *generation) open(r *http.Request, prefix string) *request.Error {
	var bad *request.Error
	if g.rank, bad = g.h.rank(r); bad != nil {
		return bad
	}
	name := r.Header.Get("X-Request-Id")
	switch {
	case name == "" && g.common.RequestID != "":
		name = g.common.RequestID
	case name == "":
		name = randomHex(8)
	}
	g.id = prefix + name
	if s := r.Header.Get("X-Session-ID"); s != "" {
		g.common.SessionID = s
	}
	g.common.IncludeUsage = g.common.IncludeUsage || g.h.set.ForceUsage && g.common.Stream
	g.common.ContinuousUsage = g.common.ContinuousUsage || g.h.set.ForceUsage && g.common.Stream
	g.common.Priority = priority(r, g.common.Priority)
	g.model, bad = g.h.resolve(g.common.Model)
	return bad
}

// completionScripts tokenises the prompts and checks lengths and options in vLLM's order.
func (g *generation) completionScripts(ctx context.Context, req *request.Completion) ([]*script, error) {
	h, s := g.h, &req.Sampling
	if len(req.Prompts) == 0 {
		return nil, request.Bad("You must pass at least one prompt")
	}
	var scripts []*script
	for i := range req.Prompts {
		ids, err := h.promptIDs(ctx, &req.Prompts[i], req)
		if err != nil {
			return nil, err
		}
		limit := s.OutputLimit(len(ids), defaultMaxTokens, req.Echo, h.set.Limits)
		if bad := s.Verify(limit, h.set.Limits); bad != nil {
			return nil, bad
		}
		g.prompts = append(g.prompts, ids)
		for k := range s.N {
			scripts = append(scripts, &script{
				prompt: ids, sampling: s, limit: limit, limited: req.Limit, index: k, model: g.model,
			})
		}
	}
	return scripts, nil
}

// promptIDs tokenises one prompt, or takes its ids, and checks them in vLLM's order: cut, empty, too long, unknown.
func (h *Handler) promptIDs(ctx context.Context, p *request.Prompt, req *request.Completion) ([]uint32, error) {
	ids := p.IDs
	if !p.IsIDs {
		if req.HasPromptSurrogates {
			return nil, request.Bad("TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]")
		}
		var err error
		if ids, err = h.deps.Tokenizer.Encode(ctx, []byte(p.Text), req.AddSpecial); err != nil {
			return nil, err
		}
	}
	if n := req.TruncatePrompt; n > 0 && n < len(ids) {
		ids = ids[len(ids)-n:]
	}
	if len(ids) == 0 {
		return nil, request.Bad("The decoder prompt cannot be empty")
	}
	if bad := h.tooLong(len(ids)); bad != nil {
		return nil, bad
	}
	if bad := request.CheckVocab(ids, "", h.set.Limits); bad != nil {
		return nil, bad
	}
	return ids, nil
}

// completionBody is the answer of a completion that is not streamed.
func (g *generation) completionBody() []byte {
	dst := append(g.appendHead(make([]byte, 0, 1024), "text_completion"), `,"choices":[`...)
	for i, s := range g.seqs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = g.appendCompletionChoice(dst, s)
	}
	dst = append(dst, `],"service_tier":null`...)
	dst = append(g.appendFingerprint(dst), ',')
	return append(g.appendUsage(dst), `,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}`...)
}

// appendCompletionChoice writes one choice; with echo its text and logprobs begin with the prompt's.
func (g *generation) appendCompletionChoice(dst []byte, s *sequence) []byte {
	n := s.seq.Produced()
	var echoed string
	var tokens []offsetToken
	if g.common.Echo {
		echoed = g.h.detok.join(s.seq.Prompt)
		for k, id := range s.seq.Prompt {
			tokens = append(tokens, offsetToken{id: id, place: k, first: k == 0})
		}
	}
	for k, id := range s.plan.ids[:n] {
		tokens = append(tokens, offsetToken{id: id, place: len(s.seq.Prompt) + k})
	}
	reason, stop := s.finish()
	dst = appendInt(dst, `{"index":`, s.index)
	dst = appendString(append(dst, `,"text":`...), echoed+s.textUpTo(n))
	dst = g.appendLogprobs(append(dst, `,"logprobs":`...), tokens, 0)
	dst = append(append(append(dst, `,"finish_reason":"`...), reason...), `","stop_reason":`...)
	dst = append(append(dst, stop...), `,"token_ids":`...)
	dst = appendIDs(dst, s.plan.ids[:n], g.common.ReturnTokenIDs)
	dst = g.appendPromptLogprobs(append(dst, `,"prompt_logprobs":`...), s.seq.Prompt)
	dst = appendIDs(append(dst, `,"prompt_token_ids":`...), s.seq.Prompt, g.common.ReturnTokenIDs)
	return append(dst, `,"routed_experts":null}`...)
}

// textUpTo is the text that exists after n tokens.
func (s *sequence) textUpTo(n int) string {
	if n == 0 {
		return ""
	}
	return s.plan.text[:s.plan.ends[n-1]]
}

// streamCompletion relays the choices as they come to be. What is equal in all chunks is put together once.
func (g *generation) streamCompletion(ctx context.Context, out *sse) {
	head := append(g.appendHead([]byte("data: "), "text_completion"), `,"choices":[`...)
	emit := func(p part) {
		s := p.s
		before := s.textUpTo(p.from)
		text := s.textUpTo(p.to)[len(before):]
		prompt := g.common.ReturnTokenIDs && p.from == 0
		var tokens []offsetToken
		for i := p.from; i < p.to && g.common.Sampling.Logprobs >= 0; i++ {
			tokens = append(tokens, offsetToken{id: s.plan.ids[i], place: len(s.seq.Prompt) + i})
		}
		if p.from == 0 && g.common.Echo {
			text = g.h.detok.join(s.seq.Prompt) + text
		}
		dst := appendInt(append(out.buf, head...), `{"index":`, s.index)
		dst = appendString(append(dst, `,"text":`...), text)
		dst = g.appendLogprobs(append(dst, `,"logprobs":`...), tokens, len(before))
		dst = append(dst, `,"finish_reason":`...)
		if p.final {
			reason, stop := s.finish()
			dst = append(append(append(append(dst, '"'), reason...), `","stop_reason":`...), stop...)
		} else {
			dst = append(dst, `null,"stop_reason":null`...)
		}
		dst = appendIDs(append(dst, `,"prompt_token_ids":`...), s.seq.Prompt, prompt)
		dst = appendIDs(append(dst, `,"token_ids":`...), s.plan.ids[p.from:p.to], g.common.ReturnTokenIDs)
		dst = append(dst, "}]"...)
		out.buf = g.endChunk(dst, p)
		out.event()
	}
	if g.relay(ctx, out, emit) {
		g.closeStream(out, head)
		return
	}
	g.closeFailed(ctx, out)
}

// endChunk writes what stands behind a chunk's choices.
func (g *generation) endChunk(dst []byte, p part) []byte {
	if g.common.ContinuousUsage {
		dst = g.appendRunningUsage(dst, p.s, p.to)
	}
	if p.final && !g.common.IncludeUsage {
		dst = g.appendFingerprint(dst)
	}
	return append(dst, "}\n\n"...)
}

// closeStream writes the usage chunk, if it is wanted, and the end marker.
func (g *generation) closeStream(out *sse, head []byte) {
	if g.common.IncludeUsage {
		out.buf = append(append(out.buf, head...), "],"...)
		out.buf = append(g.appendFingerprint(g.appendFinalUsage(out.buf)), "}\n\n"...)
		out.event()
	}
	out.done()
}

// closeFailed ends a stream that a fault broke; to a client that is gone nothing is written.
func (g *generation) closeFailed(ctx context.Context, out *sse) {
	if out.failed && ctx.Err() == nil {
		out.done()
	}
}
