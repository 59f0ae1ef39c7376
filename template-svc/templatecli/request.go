package templatecli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kvmesh/kvmesh/template-svc/internal/chat"
)

// body is the part of a chat request that decides the prompt.
type body struct {
	Messages             json.RawMessage `json:"messages"`
	Tools                json.RawMessage `json:"tools"`
	ToolChoice           json.RawMessage `json:"tool_choice"`
	Kwargs               json.RawMessage `json:"chat_template_kwargs"`
	Documents            json.RawMessage `json:"documents"`
	ChatTemplate         *string         `json:"chat_template"`
	AddGenerationPrompt  *bool           `json:"add_generation_prompt"`
	ContinueFinalMessage *bool           `json:"continue_final_message"`
	ReasoningEffort      *string         `json:"reasoning_effort"`
}

// request reads the conversation: a list of messages or a whole request. Flags win over the request's members.
func (c *RenderCommand) request(in io.Reader) (*chat.Request, error) {
	input, err := readInput(c.Messages, in)
	if err != nil {
		return nil, fmt.Errorf("--messages: %w", err)
	}
	b := body{Messages: input}
	if len(input) > 0 && input[0] == '{' {
		b.Messages = nil
		if err := json.Unmarshal(input, &b); err != nil {
			return nil, fmt.Errorf("--messages: read the chat request: %w", err)
		}
		if len(b.Messages) == 0 {
			return nil, errors.New(`--messages: the chat request has no "messages"`)
		}
	}
	r := &chat.Request{
		MessagesJSON: b.Messages, ToolsJSON: b.Tools, ToolChoiceJSON: b.ToolChoice, ChatTemplateKwargsJSON: b.Kwargs,
		DocumentsJSON: b.Documents, ChatTemplate: b.ChatTemplate, AddGenerationPrompt: b.AddGenerationPrompt,
		ContinueFinalMessage: b.ContinueFinalMessage, ReasoningEffort: b.ReasoningEffort,
	}
	if c.Kwargs != "" {
		r.ChatTemplateKwargsJSON = []byte(c.Kwargs)
	}
	if c.NoPrompt || c.Continue {
		off := false
		r.AddGenerationPrompt = &off
	}
	if c.Continue {
		r.ContinueFinalMessage = &c.Continue
	}
	if c.Tools != "" {
		if r.ToolsJSON, err = readInput(c.Tools, in); err != nil {
			return nil, fmt.Errorf("--tools: %w", err)
		}
	}
	return r, nil
}
