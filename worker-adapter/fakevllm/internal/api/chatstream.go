package api

import (
	"context"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// stream relays a chat answer. Before the first token every choice gets a chunk with the role.
func (c *chatCall) stream(ctx context.Context, out *sse) {
	head := append(c.appendHead([]byte("data: "), "chat.completion.chunk"), `,"choices":[`...)
	opened := false
	emit := func(p part) {
		if !opened {
			opened = true
			c.roles(out, head)
		}
		if out.failed {
			return
		}
		c.chunk(out, head, p)
	}
	if c.relay(ctx, out, emit) {
		c.closeStream(out, head)
		return
	}
	c.closeFailed(ctx, out)
}

// roles opens every choice, with the prompt's ids and text if they were asked for, and repeats an echoed message.
func (c *chatCall) roles(out *sse, head []byte) {
	for _, s := range c.seqs {
		dst := appendInt(append(out.buf, head...), `{"index":`, s.index)
		dst = append(dst, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
		if c.common.ContinuousUsage {
			dst = c.appendRunningUsage(dst, s, 0)
		}
		dst = appendIDs(append(dst, `,"prompt_token_ids":`...), c.prompts[0], c.common.ReturnTokenIDs)
		dst = c.appendPromptText(append(dst, `,"prompt_text":`...))
		out.buf = append(dst, "}\n\n"...)
		out.event()
		if c.echoed != "" {
			dst = appendInt(append(out.buf, head...), `{"index":`, s.index)
			dst = appendString(append(dst, `,"delta":{"content":`...), c.echoed)
			out.buf = append(dst, "},\"logprobs\":null,\"finish_reason\":null}]}\n\n"...)
			out.event()
		}
	}
}

// chunk writes one chunk; tokens of which nothing shows get one only if token ids were asked for, or at the end.
func (c *chatCall) chunk(out *sse, head []byte, p part) {
	s := p.s
	d := s.plan.delta(len(s.textUpTo(p.from)), len(s.textUpTo(p.to)))
	if d.empty() && !p.final && !c.common.ReturnTokenIDs && c.common.Sampling.Logprobs < 0 {
		return
	}
	dst := appendInt(append(out.buf, head...), `{"index":`, s.index)
	dst = d.append(append(dst, `,"delta":`...))
	dst = c.appendChatLogprobs(append(dst, `,"logprobs":`...), s, p.from, p.to)
	dst = append(dst, `,"finish_reason":`...)
	if p.final {
		reason, stop := s.finish()
		if reason == "stop" && c.req.Choice.Mode != request.ChooseNamed && s.plan.called() {
			reason = "tool_calls"
		}
		dst = append(append(append(append(dst, '"'), reason...), `","stop_reason":`...), stop...)
	} else {
		dst = append(dst, "null"...)
	}
	dst = appendIDs(append(dst, `,"token_ids":`...), s.plan.ids[p.from:p.to], c.common.ReturnTokenIDs)
	out.buf = c.endChunk(append(dst, "}]"...), p)
	out.event()
}

// called tells whether the text holds a whole tool call.
func (p *plan) called() bool {
	for _, r := range p.regions {
		if r.name != "" {
			return true
		}
	}
	return false
}

// delta is what one chunk adds to a message.
type delta struct {
	content   string
	reasoning string
	calls     []callDelta
}

// callDelta opens a call (name set) or adds to its arguments.
type callDelta struct {
	call      int
	name      string
	arguments string
}

// empty tells that nothing of a token shows.
func (d *delta) empty() bool { return d.content == "" && d.reasoning == "" && d.calls == nil }

// delta collects what the text in [from, to) is part of. A call opens when the text reaches the end of its name.
func (p *plan) delta(from, to int) delta {
	var d delta
	for _, r := range p.flow {
		a, b := max(r.from, from), min(r.to, to)
		if r.name != "" && from < r.to && r.to <= to {
			d.calls = append(d.calls, callDelta{call: r.call, name: r.name})
		}
		if a >= b {
			continue
		}
		switch r.kind {
		case content:
			d.content += p.text[a:b]
		case reasoning:
			d.reasoning += p.text[a:b]
		case arguments:
			d.calls = append(d.calls, callDelta{call: r.call, arguments: p.text[a:b]})
		case markup:
		}
	}
	return d
}

// append writes the delta with the fields that it has; beside tool calls content is there, and null.
func (d *delta) append(dst []byte) []byte {
	switch {
	case d.empty():
		return append(dst, "{}"...)
	case d.calls == nil && d.reasoning == "":
		return append(appendString(append(dst, `{"content":`...), d.content), '}')
	case d.calls == nil && d.content == "":
		return append(appendString(append(dst, `{"reasoning":`...), d.reasoning), '}')
	case d.calls == nil:
		dst = appendString(append(dst, `{"content":`...), d.content)
		return append(appendString(append(dst, `,"reasoning":`...), d.reasoning), '}')
	}
	if d.content == "" {
		dst = append(dst, `{"content":null`...)
	} else {
		dst = appendString(append(dst, `{"content":`...), d.content)
	}
	dst = append(dst, `,"tool_calls":[`...)
	for i, call := range d.calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		if call.name != "" {
			dst = append(dst, `{"id":"chatcmpl-tool-`+randomHex(8)+`","type":"function","index":`...)
			dst = appendString(append(appendInt(dst, "", call.call), `,"function":{"name":`...), call.name)
			dst = append(dst, "}}"...)
			continue
		}
		dst = appendString(append(appendInt(dst, `{"index":`, call.call), `,"function":{"arguments":`...), call.arguments)
		dst = append(dst, "}}"...)
	}
	return append(dst, "]}"...)
}
