package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
)

// fromResponses turns a body of /v1/responses into that of a chat request: text input (a string, or messages with
// string or text-part content), instructions and the options that both have.
func fromResponses(root *pyjson.Value) []byte {
	dst := []byte(`{"messages":[`)
	if in := root.Get("instructions"); in.Kind == pyjson.String {
		dst = append(appendString(append(dst, `{"role":"system","content":`...), in.Str), "},"...)
	}
	input := root.Get("input")
	if input.Kind == pyjson.String {
		dst = append(appendString(append(dst, `{"role":"user","content":`...), input.Str), "},"...)
	}
	for i := range input.Len() {
		if input.Kind != pyjson.List {
			break
		}
		m := input.At(i)
		text, _ := lastMessage(&pyjson.Value{Kind: pyjson.List, Items: []pyjson.Value{m}})
		dst = appendString(append(dst, `{"role":`...), m.Get("role").Str)
		dst = append(appendString(append(dst, `,"content":`...), text), "},"...)
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	dst = append(dst, ']')
	for _, key := range [...]string{"model", "temperature", "top_p", "stream", "cache_salt", "kv_transfer_params"} {
		dst = appendField(dst, key, root.Get(key))
	}
	return append(appendField(dst, "max_tokens", root.Get("max_output_tokens")), '}')
}

// response is one call of /v1/responses.
type response struct {
	*chatCall
	id     string
	number int // of the next event
	limit  string
	temp   string
}

// responses serves POST /v1/responses.
func (h *Handler) responses(w http.ResponseWriter, r *http.Request) {
	doc, _ := h.readBody(w, r)
	if doc == nil {
		return
	}
	c, bad := h.chatFrom(r, fromResponses(&doc.Root), true)
	if bad != nil {
		writeError(w, bad)
		return
	}
	v := &response{chatCall: c, id: "resp_" + c.id[len("chatcmpl-"):], limit: "null", temp: "1.0"}
	if n := doc.Root.Get("max_output_tokens"); n.Kind == pyjson.Int {
		v.limit = strconv.FormatInt(n.Int, 10)
	}
	if c.common.Sampling.HasTemperature {
		v.temp = pyjson.FloatRepr(c.common.Sampling.Temperature)
	}
	h.holdFirstByte(r.Context())
	if c.common.Stream {
		v.stream(r.Context(), h.newSSE(w))
		return
	}
	if c.wait(r.Context()) {
		writeJSON(w, http.StatusOK, v.appendObject(nil, true, v.items("null")))
	}
}

// items are the output of a finished response: a reasoning item, a message item, or both.
func (v *response) items(status string) []byte {
	s := v.seqs[0]
	m := s.plan.message(s.textUpTo(s.seq.Produced()))
	var dst []byte
	if m.reasoning != "" {
		dst = v.appendItem(dst, segment{reasoning, m.reasoning}, "rs_"+randomHex(8), status)
	}
	if m.content != "" || m.reasoning == "" {
		if dst != nil {
			dst = append(dst, ',')
		}
		dst = v.appendItem(dst, segment{content, m.content}, "msg_"+randomHex(8), `"completed"`)
	}
	return dst
}

// appendItem writes an output item: reasoning, or a message.
func (v *response) appendItem(dst []byte, s segment, id, status string) []byte {
	dst = append(appendString(append(dst, `{"id":`...), id), ',')
	if s.kind == reasoning {
		dst = append(dst, `"summary":[],"type":"reasoning","content":[`...)
		dst = append(v.appendPart(dst, s), `],"encrypted_content":null,"status":`...)
		return append(append(dst, status...), '}')
	}
	dst = append(v.appendPart(append(dst, `"content":[`...), s), `],"role":"assistant","status":`...)
	return append(append(dst, status...), `,"type":"message","phase":null}`...)
}

// appendPart writes the one content part of an item.
func (v *response) appendPart(dst []byte, s segment) []byte {
	if s.kind == reasoning {
		return append(appendString(append(dst, `{"text":`...), s.text), `,"type":"reasoning_text"}`...)
	}
	dst = appendString(append(dst, `{"annotations":[],"text":`...), s.text)
	return append(dst, `,"type":"output_text","logprobs":null}`...)
}

// appendObject writes the response object; done tells that it has ended.
func (v *response) appendObject(dst []byte, done bool, items []byte) []byte {
	reason, _ := v.seqs[0].finish()
	status, details := "in_progress", "null"
	if done {
		status = "completed"
		if reason == "length" {
			status, details = "incomplete", `{"reason":"max_output_tokens"}`
		}
	}
	dst = appendInt(appendString(append(dst, `{"id":`...), v.id), `,"created_at":`, int(v.created))
	dst = append(append(dst, `,"incomplete_details":`...), details...)
	dst = appendString(append(dst, `,"instructions":null,"metadata":null,"model":`...), v.model)
	dst = append(append(append(dst, `,"object":"response","output":[`...), items...), ']')
	dst = append(dst, `,"parallel_tool_calls":true,"temperature":`+v.temp+`,"tool_choice":"none","tools":[],"top_p":1.0`+
		`,"background":false,"max_output_tokens":`+v.limit+`,"max_tool_calls":null,"previous_response_id":null,`+
		`"prompt":null,"reasoning":null,"service_tier":"auto","status":"`+status+`","text":null,"top_logprobs":null,`+
		`"truncation":"disabled","usage":`...)
	if done {
		u := v.usage()
		dst = appendInt(dst, `{"input_tokens":`, u.prompt)
		dst = appendInt(dst, `,"input_tokens_details":{"cached_tokens":`, u.cached)
		dst = append(dst, `,"cache_write_tokens":0,"input_tokens_per_turn":[],"cached_tokens_per_turn":[]}`...)
		dst = appendInt(dst, `,"output_tokens":`, u.completion)
		dst = appendInt(dst, `,"output_tokens_details":{"reasoning_tokens":`, u.thought)
		dst = append(dst, `,"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]}`...)
		dst = append(appendInt(dst, `,"total_tokens":`, u.prompt+u.completion), '}')
	} else {
		dst = append(dst, "null"...)
	}
	return append(dst, `,"user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,`+
		`"ec_transfer_params":null,"input_messages":null,"output_messages":null}`...)
}

// event sends an event whose object begins with body and ends with its number and name.
func (v *response) event(out *sse, name string, body []byte) {
	dst := append(named(out.buf, "response."+name), body...)
	dst = appendInt(dst, `,"sequence_number":`, v.number)
	out.buf = append(dst, `,"type":"response.`+name+`"}`+"\n\n"...)
	v.number++
	out.event()
}

// stream relays a response as numbered events. Each run of thought or answer is an item that is added, filled and
// done.
func (v *response) stream(ctx context.Context, out *sse) {
	for _, name := range [...]string{"created", "in_progress"} {
		v.event(out, name, v.appendObject([]byte(`{"response":`), false, nil))
	}
	var items []byte
	index, id := -1, ""
	at := func(key string) []byte {
		dst := appendString(append([]byte(`{"content_index":0`), key...), id)
		return appendInt(dst, `,"output_index":`, index)
	}
	open := func(s segment) {
		index++
		id = "msg_" + randomHex(8)
		item := `{"item":{"id":"` + id + `","content":[],"role":"assistant","status":"in_progress","type":"message",` +
			`"phase":null}`
		if s.kind == reasoning {
			id = "rs_" + id[len("msg_"):]
			item = `{"item":{"id":"` + id + `","summary":[],"type":"reasoning","content":null,"encrypted_content":null,` +
				`"status":"in_progress"}`
		}
		v.event(out, "output_item.added", appendInt([]byte(item), `,"output_index":`, index))
		v.event(out, "content_part.added", v.appendPart(append(at(`,"item_id":`), `,"part":`...), segment{kind: s.kind}))
	}
	name := map[regionKind]string{reasoning: "reasoning_text", content: "output_text"}
	more := func(s segment) {
		dst := appendString([]byte(`{"content_index":0,"delta":`), s.text)
		dst = appendString(append(dst, `,"item_id":`...), id)
		v.event(out, name[s.kind]+".delta", appendInt(dst, `,"output_index":`, index))
	}
	shut := func(s segment) {
		v.eventText(out, name[s.kind]+".done", at(`,"item_id":`), s.text)
		v.event(out, "content_part.done", v.appendPart(append(at(`,"item_id":`), `,"part":`...), s))
		item := v.appendItem(nil, s, id, `"completed"`)
		v.event(out, "output_item.done", appendInt(append([]byte(`{"item":`), item...), `,"output_index":`, index))
		if items != nil {
			items = append(items, ',')
		}
		items = append(items, item...)
	}
	if v.segments(ctx, out, runs{open, more, shut}) {
		v.event(out, "completed", v.appendObject([]byte(`{"response":`), true, items))
	}
}

// eventText sends an event whose text stands behind its number.
func (v *response) eventText(out *sse, name string, body []byte, text string) {
	dst := appendInt(append(named(out.buf, "response."+name), body...), `,"sequence_number":`, v.number)
	dst = appendString(append(dst, `,"text":`...), text)
	out.buf = append(dst, `,"type":"response.`+name+`"}`+"\n\n"...)
	v.number++
	out.event()
}
