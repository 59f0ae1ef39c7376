// Package openai knows the JSON of OpenAI's API as vLLM speaks it: the few request members kvmesh reads, the changes
// it makes by splicing, the usage and finish of answers, and the one error object.
package openai

import (
	"errors"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

// Shape is the family of a request body; it decides which members are read.
type Shape uint8

// Shapes of request bodies.
const (
	// ShapeOther has a model and perhaps a stream flag.
	ShapeOther Shape = iota
	// ShapeChat has messages.
	ShapeChat
	// ShapeChatBatch has a list of message lists.
	ShapeChatBatch
	// ShapeCompletion has a prompt or many.
	ShapeCompletion
	// ShapeMessages is Anthropic's: system and messages.
	ShapeMessages
	// ShapeResponses is OpenAI's newer API: instructions and input.
	ShapeResponses
)

// Request is one request body with the places of the members that kvmesh reads. All other members are only checked to
// be JSON. Where a member is given twice the last one counts, as it does in vLLM.
type Request struct {
	// Doc is the client's bytes.
	Doc []byte
	// Shape says which members were read.
	Shape Shape
	// Model is the requested model, empty when absent or null.
	Model string
	// ModelValue is its place.
	ModelValue jsontext.Value
	// Stream tells whether events are wanted.
	Stream bool
	// StreamOptions is its place; kind None when the client sent none.
	StreamOptions jsontext.Value
	// IncludeUsage tells whether the client asked for the usage chunk.
	IncludeUsage bool
	// N is the number of answers per prompt, at least 1.
	N int
	// MaxTokens is the output limit, 0 when not given.
	MaxTokens int
	// Priority is the client's, 0 is normal.
	Priority int32
	// CacheSalt enters the unit hashes.
	CacheSalt string
	// Session is vLLM's session_id.
	Session string
	// Template holds what decides a chat's prompt.
	Template Template
	// Prompt is the completion's prompt.
	Prompt Prompt
	// Conversation is the values whose bytes make up the prompt, in prompt order.
	Conversation []jsontext.Value
	// KVTransfer is the place of kv_transfer_params.
	KVTransfer jsontext.Value
	// AddSpecialTokens has the tokenizer put its own tokens around the prompt's text. vLLM 0.32's default is true for
	// completions and for responses, and false for chats and messages, whose template writes them.
	AddSpecialTokens bool
	// Keep is vLLM's truncate_prompt_tokens: of a longer prompt so many tokens stay. Negative for as many as the model takes, or
	// where it is not given.
	Keep int
	// PreviousResponse is the responses API's previous_response_id.
	PreviousResponse string

	logprobs logprobs

	edits []jsontext.Edit
	root  jsontext.Value
	empty bool
}

// logprobs is what asks for log probabilities of the prompt.
type logprobs struct{ prompt, plain, echo bool }

// SkipsReadingCache tells whether the worker computes the prompt anew whatever it holds. vLLM 0.32 does for prompt_logprobs,
// also for zero of them, which a completion's echo implies where log probabilities of the answer are asked for, and a chat's
// echo always: its top_logprobs is 0 also where it is null.
func (q *Request) SkipsReadingCache() bool {
	switch p := &q.logprobs; q.Shape {
	case ShapeCompletion:
		return p.prompt || p.echo && p.plain
	case ShapeChat, ShapeChatBatch:
		return p.prompt || p.echo
	default:
		return false
	}
}

// Truncates tells whether the worker cuts a prompt of so many tokens.
func (q *Request) Truncates(tokens int) bool { return q.Keep >= 0 && tokens > q.Keep }

// Template is the members of a chat request that decide its prompt.
type Template struct {
	Messages, Tools, ToolChoice, Kwargs, Documents jsontext.Value

	// ChatTemplate and ReasoningEffort are nil when absent or null.
	ChatTemplate, ReasoningEffort *string
	// AddGenerationPrompt and ContinueFinalMessage are nil when absent or null.
	AddGenerationPrompt, ContinueFinalMessage *bool
	// Batch is the place of each conversation of a batch.
	Batch []jsontext.Value
}

// Prompt is a completion's prompt: one text, one list of ids, or many of either.
type Prompt struct {
	// Value is the place of the whole member.
	Value jsontext.Value
	// Many tells that Items are prompts of their own.
	Many bool
	// Items is the place of each prompt.
	Items []jsontext.Value
	// IDs tells that prompts are token ids.
	IDs bool
}

// Scan reads a request. Faults are INVALID_REQUEST and name the member.
func Scan(shape Shape, doc []byte, maxDepth int) (*Request, error) {
	s := &scanner{maxDepth: maxDepth}
	s.req = Request{Doc: doc, Shape: shape, N: 1, Keep: -1, empty: true}
	s.req.AddSpecialTokens = shape == ShapeCompletion || shape == ShapeResponses
	if err := s.scan(); err != nil {
		return nil, invalid(err)
	}
	return &s.req, nil
}

// invalid makes a fault of a reader's error; faults pass.
func invalid(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	return fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "The request could not be read: %s.", err.Error())
}

// wrongType is the fault of a member with the wrong type.
func wrongType(param, want string) error {
	return fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "'%s' must be %s.", param, want).WithParam(param)
}

// Prompts is how many prompts the request holds.
func (q *Request) Prompts() int {
	switch {
	case q.Shape == ShapeChatBatch:
		return len(q.Template.Batch)
	case q.Prompt.Many:
		return len(q.Prompt.Items)
	}
	return 1
}

// Beside is how many bytes of the body stand beside the list of prompts: each prompt's call carries them.
func (q *Request) Beside() int {
	whole := q.Prompt.Value
	if q.Shape == ShapeChatBatch {
		whole = q.Template.Messages
	}
	return len(q.Doc) - (whole.End - whole.Start)
}

// Text is the source text of a member in the client's bytes, nil when it is absent or null.
func (q *Request) Text(v jsontext.Value) []byte {
	if !v.Present() {
		return nil
	}
	return v.Text(q.Doc)
}
