package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// scaleOutRoutes are those of --enable-scale-out; without it they answer 403.
func (h *Handler) scaleOutRoutes(t map[string]route) {
	off := func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, &request.Error{Status: 403, Type: "PermissionDeniedError", Message: "Scale-out endpoints are " +
			"disabled. Restart vllm serve with --enable-scale-out to enable them."})
	}
	on := func(f http.HandlerFunc) http.HandlerFunc {
		if h.set.ScaleOut {
			return f
		}
		return off
	}
	t["/v1/chat/completions/render"] = route{post: on(h.renderChat)}
	t["/v1/completions/render"] = route{post: on(h.renderCompletion)}
	t["/inference/v1/generate"] = route{post: on(h.generateTokens), generates: true}
}

// renderChat answers with the prompt that a chat request becomes, as a request to /inference/v1/generate.
func (h *Handler) renderChat(w http.ResponseWriter, r *http.Request) {
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
	ids, err := c.prompt(r.Context(), &doc.Root)
	if err != nil {
		writeError(w, h.asError(err))
		return
	}
	limit := req.Sampling.OutputLimit(len(ids), h.set.Limits.MaxModelLen, false, h.set.Limits)
	dst := c.appendRendered(nil, c.id, ids, limit)
	dst = strconv.AppendBool(append(dst, `,"reasoning_ended":`...), !req.Thinking)
	dst = append(dst, `,"reasoning_parser_kwargs":{"chat_template_kwargs":{"cohere_format":"cmd4"`...)
	kwargs := doc.Root.Get("chat_template_kwargs")
	for i := range kwargs.Members {
		dst = append(appendString(append(dst, ','), kwargs.Members[i].Key), ':')
		dst = append(dst, kwargs.Members[i].Value.Raw...)
	}
	dst = append(dst, `,"add_generation_prompt":true,"continue_final_message":false}}`...)
	writeJSON(w, http.StatusOK, c.endRendered(dst))
}

// renderCompletion does the same for each prompt of a completion.
func (h *Handler) renderCompletion(w http.ResponseWriter, r *http.Request) {
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
	if err != nil {
		writeError(w, h.asError(err))
		return
	}
	dst := []byte{'['}
	for i, s := range scripts {
		id := g.id
		if len(scripts) > 1 {
			id += "-" + strconv.Itoa(i)
			if i > 0 {
				dst = append(dst, ',')
			}
		}
		dst = g.appendRendered(dst, id, s.prompt, s.limit)
		dst = append(dst, `,"reasoning_ended":null,"reasoning_parser_kwargs":null`...)
		dst = g.endRendered(dst)
	}
	writeJSON(w, http.StatusOK, append(dst, ']'))
}

// appendRendered writes a generate request up to its model. Sampling fields that have their defaults are left out, as
// msgspec leaves them out.
func (g *generation) appendRendered(dst []byte, id string, ids []uint32, limit int) []byte {
	s := &g.common.Sampling
	dst = appendString(append(dst, `{"request_id":`...), id)
	dst = appendInts(append(dst, `,"token_ids":`...), ids)
	dst = append(dst, `,"token_offsets":null,"features":null,"content_parts":null,"sampling_params":{`...)
	if s.N > 1 {
		dst = append(appendInt(dst, `"n":`, s.N), ',')
	}
	dst = append(dst, `"presence_penalty":0.0,"frequency_penalty":0.0,"repetition_penalty":1.0,"temperature":`...)
	dst = append(dst, pyjson.FloatRepr(s.Temperature)...)
	if s.Temperature > 0 {
		dst = append(dst, `,"top_p":0.95,"top_k":20,"min_p":0.0`...)
	}
	dst = appendInt(append(dst, `,"stop":[],"stop_token_ids":[]`...), `,"max_tokens":`, limit)
	if g.chat {
		dst = append(dst, `,"skip_special_tokens":false`...)
	}
	kind := 2 // final output only; 1 for deltas
	if g.common.Stream {
		kind = 1
	}
	dst = appendInt(dst, `,"output_kind":`, kind)
	dst = append(dst, `,"skip_clone":true,"bad_words":[],"skip_reading_prefix_cache":false},"model":`...)
	return appendString(dst, g.model)
}

// endRendered writes the rest of a generate request.
func (g *generation) endRendered(dst []byte) []byte {
	dst = append(dst, `,"return_token_ids":null,"output_mode":"tokens","stream":`...)
	dst = append(strconv.AppendBool(dst, g.common.Stream), `,"stream_options":null,"cache_salt":`...)
	if g.common.CacheSalt == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(dst, g.common.CacheSalt)
	}
	dst = appendInt(dst, `,"priority":`, g.common.Priority)
	return append(dst, `,"kv_transfer_params":null,"ec_transfer_params":null}`...)
}

// generateTokens takes token ids and answers with token ids.
func (h *Handler) generateTokens(w http.ResponseWriter, r *http.Request) {
	doc, _ := h.readBody(w, r)
	if doc == nil {
		return
	}
	common, ids, bad := request.ParseGenerate(doc)
	if bad != nil {
		writeError(w, bad)
		return
	}
	g := &generation{h: h, common: common}
	if bad = g.open(r, "generate-tokens-"); bad != nil {
		writeError(w, bad)
		return
	}
	if err := g.startTokens(r.Context(), ids); err != nil {
		g.fail(w, err)
		return
	}
	h.holdFirstByte(r.Context())
	if common.Stream {
		g.streamTokens(r.Context(), h.newSSE(w))
		return
	}
	if g.wait(r.Context()) {
		writeJSON(w, http.StatusOK, g.tokensBody())
	}
}

// startTokens checks ids and options and queues the one sequence.
func (g *generation) startTokens(ctx context.Context, ids []uint32) error {
	l := g.h.set.Limits
	if bad := request.CheckVocab(ids, "", l); bad != nil {
		return bad
	}
	if bad := g.h.tooLong(len(ids)); bad != nil {
		return bad
	}
	s := &g.common.Sampling
	limit := s.OutputLimit(len(ids), l.MaxModelLen, false, l)
	if bad := s.Verify(limit, l); bad != nil {
		return bad
	}
	g.prompts = [][]uint32{ids}
	return g.start(ctx, []*script{{prompt: ids, sampling: s, limit: limit, model: g.model}})
}

// tokensBody is the answer of a request that is not streamed.
func (g *generation) tokensBody() []byte {
	s := g.seqs[0]
	n := s.seq.Produced()
	dst := appendString([]byte(`{"request_id":`), g.id)
	dst = appendString(append(dst, `,"model":`...), g.model)
	dst = append(appendInt(dst, `,"created":`, int(g.created)), ',')
	dst = append(g.appendUsage(dst), `,"prompt_logprobs":null,"prompt_token_id_logprobs":null,"prompt_token_ids":null,`+
		`"mm_placeholders":null,"metrics":null,"kv_transfer_params":null,"ec_transfer_params":null,`+
		`"output_mode":"tokens","choices":[{"index":0`...)
	dst = g.appendTokens(dst, part{s: s, to: n, final: true})
	dst = appendWeights(append(dst, `,"weight_versions":`...), n, true)
	return append(g.appendTokenLogprobs(append(dst, `,"logprobs":`...), s, n), "}]}"...)
}

// appendWeights names the one version of the weights that made all n tokens; only an end has it.
func appendWeights(dst []byte, n int, final bool) []byte {
	if !final {
		return append(dst, "null"...)
	}
	return append(appendInt(dst, `[{"version":"default","start":0,"end":`, n), "}]"...)
}

// appendTokens writes what chunk and body of a choice have in common.
func (g *generation) appendTokens(dst []byte, p part) []byte {
	dst = append(dst, `,"finish_reason":`...)
	if p.final {
		reason, stop := p.s.finish()
		dst = append(append(append(append(dst, '"'), reason...), `","stop_reason":`...), stop...)
	} else {
		dst = append(dst, `null,"stop_reason":null`...)
	}
	dst = appendInts(append(dst, `,"token_ids":`...), p.s.plan.ids[p.from:p.to])
	return append(dst, `,"routed_experts":null,"sampling_mask":null`...)
}

// appendTokenLogprobs writes logprobs by token id.
func (g *generation) appendTokenLogprobs(dst []byte, s *sequence, n int) []byte {
	if g.common.Sampling.Logprobs < 0 {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"content":[`...)
	for i, id := range s.plan.ids[:n] {
		if i > 0 {
			dst = append(dst, ',')
		}
		entry := appendInt(nil, `"token_id":`, int(id))
		entry = append(appendFloat(append(entry, `,"logprob":`...), logprob(id, i, 0)), `,"rank":1`...)
		dst = append(append(append(dst, '{'), entry...), `,"top_logprobs":[{`...)
		dst = append(append(dst, entry...), "}]}"...)
	}
	return append(dst, "]}"...)
}

// streamTokens relays ids. Unset fields are null here, unlike in chat chunks.
func (g *generation) streamTokens(ctx context.Context, out *sse) {
	head := append(appendString([]byte(`data: {"request_id":`), g.id), `,"usage":`...)
	emit := func(p part) {
		dst := append(append(out.buf, head...), `null,"output_mode":"tokens","choices":[{"index":0`...)
		dst = g.appendTokens(dst, p)
		dst = appendWeights(append(dst, `,"weight_versions":`...), p.to, p.final)
		out.buf = append(dst, `,"logprobs":null}]}`+"\n\n"...)
		out.event()
	}
	if !g.relay(ctx, out, emit) {
		g.closeFailed(ctx, out)
		return
	}
	if g.common.IncludeUsage {
		dst := append(append([]byte(nil), head[:len(head)-len(`"usage":`)]...), g.appendFinalUsage(nil)...)
		out.buf = append(append(out.buf, dst...), `,"output_mode":"tokens","choices":[]}`+"\n\n"...)
		out.event()
	}
	out.done()
}
