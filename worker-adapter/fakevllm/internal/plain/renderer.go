package plain

import (
	"context"
	"errors"
	"strings"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
)

// errEmpty has the words of vLLM 0.32, which are no Go error's.
//
//nolint:staticcheck,revive // vLLM's own words
var errEmpty = errors.New("Cannot apply chat template to an empty conversation. Provide at least one message.")

// Renderer writes messages as ChatML does: <|im_start|>role, newline, content, <|im_end|>, newline. Tools stand in a
// system turn of their own.
type Renderer struct{}

// Render takes a chat request body. It reads messages, tools, add_generation_prompt, continue_final_message and
// chat_template_kwargs.enable_thinking; false closes an empty thought, as Qwen3's template does.
func (Renderer) Render(_ context.Context, request []byte) ([]byte, error) {
	doc, err := pyjson.Parse(request)
	if err != nil {
		return nil, err
	}
	req := &doc.Root
	msgs := req.Get("messages")
	if msgs.Len() == 0 {
		return nil, errEmpty
	}
	var b strings.Builder
	if tools := req.Get("tools"); !tools.IsNull() {
		b.WriteString("<|im_start|>system\nTools:")
		for i := range tools.Len() {
			t := tools.At(i)
			b.WriteByte('\n')
			b.Write(t.Get("function").Raw)
		}
		b.WriteString("<|im_end|>\n")
	}
	cont := req.Get("continue_final_message").Bool
	thoughtless := false
	if on := req.Get("chat_template_kwargs").Get("enable_thinking"); on.Kind == pyjson.Bool {
		thoughtless = !on.Bool
	}
	if req.Get("reasoning_effort").Str == "none" {
		thoughtless = true
	}
	for i := range msgs.Len() {
		m := msgs.At(i)
		b.WriteString("<|im_start|>" + role(&m) + "\n")
		b.WriteString(content(&m))
		if cont && i == msgs.Len()-1 {
			return []byte(b.String()), nil
		}
		b.WriteString("<|im_end|>\n")
	}
	if add := req.Get("add_generation_prompt"); add.Kind != pyjson.Bool || add.Bool {
		b.WriteString("<|im_start|>assistant\n")
		if thoughtless {
			b.WriteString("<think>\n\n</think>\n\n")
		}
	}
	return []byte(b.String()), nil
}

// role maps "developer" to "system", as vLLM does before it renders.
func role(m *pyjson.Value) string {
	if r := m.Get("role").Str; r != "developer" {
		return r
	}
	return "system"
}

// content joins text parts by newlines and writes tool calls behind the text.
func content(m *pyjson.Value) string {
	c := m.Get("content")
	text := c.Str
	if c.Kind == pyjson.List {
		parts := make([]string, 0, c.Len())
		for i := range c.Len() {
			p := c.At(i)
			if p.Kind == pyjson.String {
				parts = append(parts, p.Str)
				continue
			}
			parts = append(parts, p.Get("text").Str)
		}
		text = strings.Join(parts, "\n")
	}
	calls := m.Get("tool_calls")
	for i := range calls.Len() {
		call := calls.At(i)
		f := call.Get("function")
		text += "\n<tool_call>\n{\"name\": \"" + f.Get("name").Str + "\", \"arguments\": " + f.Get("arguments").Str +
			"}\n</tool_call>"
	}
	return text
}
