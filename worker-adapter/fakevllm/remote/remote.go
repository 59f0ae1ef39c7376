// Package remote gives a simulated worker the mesh's own tokenizer and templates, over gRPC. A simulated worker then
// renders and tokenises as the real worker of the same model would, so that its KV events and cached_tokens mean what
// they mean in production.
package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
)

// decodeLimit bounds one decode, which has no context of its own: a token of a stream waits no longer.
const decodeLimit = 5 * time.Second

// Tokenizer speaks to tokenizer-svc for one model.
type Tokenizer struct {
	Client tokenizerv1.TokenizerServiceClient
	Model  string
}

// Encode gives the ids of a text. Errors carry a fault's message, never the text.
func (t Tokenizer) Encode(ctx context.Context, text []byte, addSpecial bool) ([]uint32, error) {
	got, err := t.Client.Encode(ctx, &tokenizerv1.EncodeRequest{
		Model: t.Model, Text: text, AddSpecialTokens: addSpecial, WantTokenIds: true,
	})
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return got.GetTokenIds(), nil
}

// Decode gives the text of ids, special tokens left out as in vLLM's answers.
func (t Tokenizer) Decode(ids []uint32) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), decodeLimit)
	defer cancel()
	got, err := t.Client.Decode(ctx, &tokenizerv1.DecodeRequest{Model: t.Model, TokenIds: ids, SkipSpecialTokens: true})
	if err != nil {
		return "", fmt.Errorf("decode: %w", err)
	}
	return string(got.GetText()), nil
}

// Renderer speaks to template-svc for one model.
type Renderer struct {
	Client templatev1.TemplateServiceClient
	Model  string
	// Version is the vLLM version that is simulated; it decides between older and newer message rules.
	Version string
}

// chatRequest is the part of a chat request that decides the prompt.
type chatRequest struct {
	Messages             json.RawMessage `json:"messages"`
	Tools                json.RawMessage `json:"tools"`
	ToolChoice           json.RawMessage `json:"tool_choice"`
	ChatTemplateKwargs   json.RawMessage `json:"chat_template_kwargs"`
	Documents            json.RawMessage `json:"documents"`
	ChatTemplate         *string         `json:"chat_template"`
	AddGenerationPrompt  *bool           `json:"add_generation_prompt"`
	ContinueFinalMessage *bool           `json:"continue_final_message"`
	ReasoningEffort      *string         `json:"reasoning_effort"`
}

// Render gives the prompt of a chat request's body.
func (r Renderer) Render(ctx context.Context, chatRequestJSON []byte) ([]byte, error) {
	var c chatRequest
	if err := json.Unmarshal(chatRequestJSON, &c); err != nil {
		return nil, fmt.Errorf("the chat request is not valid JSON")
	}
	got, err := r.Client.Render(ctx, &templatev1.RenderRequest{
		Model: r.Model, MessagesJson: c.Messages, ToolsJson: c.Tools, ToolChoiceJson: c.ToolChoice,
		ChatTemplateKwargsJson: c.ChatTemplateKwargs, DocumentsJson: c.Documents, ChatTemplate: c.ChatTemplate,
		AddGenerationPrompt: c.AddGenerationPrompt, ContinueFinalMessage: c.ContinueFinalMessage,
		ReasoningEffort: c.ReasoningEffort, WorkerVersion: r.Version,
	})
	if err != nil {
		return nil, err
	}
	return got.GetText(), nil
}
