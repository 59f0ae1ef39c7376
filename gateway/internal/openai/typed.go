package openai

import (
	"strconv"

	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"

	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

// ChatJSON is a chat request's body: the client's bytes, or the typed members in OpenAI's JSON.
func ChatJSON(q *gatewayv1.ChatCompletionsRequest) ([]byte, error) {
	if len(q.GetRawJson()) > 0 {
		return q.GetRawJson(), nil
	}
	w := newBuilder()
	w.named("model", q.GetModel())
	w.name("messages")
	w.list(len(q.GetMessages()), func(i int) { w.message(q.GetMessages()[i]) })
	if len(q.GetTools()) > 0 {
		w.name("tools")
		w.list(len(q.GetTools()), func(i int) { w.tool(q.GetTools()[i]) })
	}
	w.raw("tool_choice", q.GetToolChoiceJson())
	w.boolean("parallel_tool_calls", q.ParallelToolCalls)
	w.count("max_completion_tokens", q.MaxCompletionTokens)
	w.count("max_tokens", q.MaxTokens)
	w.float("temperature", q.Temperature)
	w.float("top_p", q.TopP)
	w.count("n", q.N)
	w.texts("stop", q.GetStop())
	w.integer("seed", q.Seed)
	w.boolean("stream", q.Stream)
	w.streamOptions(q.GetStreamOptions())
	w.float("presence_penalty", q.PresencePenalty)
	w.float("frequency_penalty", q.FrequencyPenalty)
	w.boolean("logprobs", q.Logprobs)
	w.count("top_logprobs", q.TopLogprobs)
	w.raw("response_format", q.GetResponseFormatJson())
	w.text("reasoning_effort", q.ReasoningEffort)
	w.text("user", q.User)
	w.raw("chat_template_kwargs", q.GetChatTemplateKwargsJson())
	w.raw("documents", q.GetDocumentsJson())
	w.text("chat_template", q.ChatTemplate)
	w.boolean("add_generation_prompt", q.AddGenerationPrompt)
	w.boolean("continue_final_message", q.ContinueFinalMessage)
	w.text("cache_salt", q.CacheSalt)
	w.priority(q.Priority)
	w.extra(q.GetExtraJson())
	return w.done()
}

// message writes one turn.
func (w *builder) message(m *gatewayv1.ChatMessage) {
	w.nested(func() {
		w.named("role", m.GetRole())
		if len(m.GetContentJson()) > 0 {
			w.raw("content", m.GetContentJson())
		} else {
			w.text("content", m.Content)
		}
		w.text("name", m.Name)
		if len(m.GetToolCalls()) > 0 {
			w.name("tool_calls")
			w.list(len(m.GetToolCalls()), func(i int) { w.call(m.GetToolCalls()[i]) })
		}
		w.text("tool_call_id", m.ToolCallId)
		w.text("reasoning", m.Reasoning)
		w.extra(m.GetExtraJson())
	})
}

func (w *builder) call(c *gatewayv1.ToolCall) {
	w.nested(func() {
		id, arguments := c.GetId(), c.GetArguments()
		w.text("id", &id)
		w.named("type", orFunction(c.GetType()))
		w.name("function")
		w.nested(func() {
			w.named("name", c.GetName())
			w.text("arguments", &arguments)
		})
	})
}

func (w *builder) tool(t *gatewayv1.Tool) {
	w.nested(func() {
		w.named("type", orFunction(t.GetType()))
		w.name("function")
		w.nested(func() {
			w.named("name", t.GetName())
			w.text("description", t.Description)
			w.raw("parameters", t.GetParametersJson())
			w.boolean("strict", t.Strict)
		})
	})
}

func orFunction(kind string) string {
	if kind == "" {
		return "function"
	}
	return kind
}

// CompletionJSON is a completion's body.
func CompletionJSON(q *gatewayv1.CompletionsRequest) ([]byte, error) {
	if len(q.GetRawJson()) > 0 {
		return q.GetRawJson(), nil
	}
	w := newBuilder()
	w.named("model", q.GetModel())
	w.prompts("prompt", q.GetPrompts())
	w.count("max_tokens", q.MaxTokens)
	w.float("temperature", q.Temperature)
	w.float("top_p", q.TopP)
	w.count("n", q.N)
	w.texts("stop", q.GetStop())
	w.integer("seed", q.Seed)
	w.boolean("stream", q.Stream)
	w.streamOptions(q.GetStreamOptions())
	w.boolean("echo", q.Echo)
	w.count("logprobs", q.Logprobs)
	w.boolean("add_special_tokens", q.AddSpecialTokens)
	w.text("cache_salt", q.CacheSalt)
	w.priority(q.Priority)
	w.extra(q.GetExtraJson())
	return w.done()
}

// prompts writes one prompt as itself and many as a list.
func (w *builder) prompts(name string, ps []*gatewayv1.Prompt) {
	if len(ps) == 0 {
		return
	}
	w.name(name)
	one := func(i int) {
		ids := ps[i].GetTokenIds()
		if ids == nil {
			w.b = jsontext.AppendQuoted(w.b, []byte(ps[i].GetText()))
			return
		}
		w.list(len(ids.GetIds()), func(k int) { w.b = strconv.AppendUint(w.b, uint64(ids.GetIds()[k]), 10) })
	}
	if len(ps) == 1 {
		one(0)
		return
	}
	w.list(len(ps), one)
}

// EmbeddingsJSON is an embeddings request's body.
func EmbeddingsJSON(q *gatewayv1.EmbeddingsRequest) ([]byte, error) {
	if len(q.GetRawJson()) > 0 {
		return q.GetRawJson(), nil
	}
	w := newBuilder()
	w.named("model", q.GetModel())
	w.prompts("input", q.GetInputs())
	w.text("encoding_format", q.EncodingFormat)
	w.count("dimensions", q.Dimensions)
	w.text("user", q.User)
	w.extra(q.GetExtraJson())
	return w.done()
}
