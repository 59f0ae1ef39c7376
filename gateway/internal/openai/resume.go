package openai

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

// defaultCompletionTokens is vLLM's max_tokens for completions that name none.
const defaultCompletionTokens = 16

// Resumable tells whether a broken stream of the request can be taken on by another worker: greedy sampling (temperature
// exactly 0) of one sequence over text, and nothing whose state lies in what was generated before: no tools, no
// structured output, no log probabilities, no echo, no beams, no token ids in the answer.
func (q *Request) Resumable() bool {
	text := q.Shape == ShapeChat || q.Shape == ShapeCompletion && q.Prompt.Value.Kind == jsontext.String
	if !text || !q.Stream || q.N != 1 || q.KVTransfer.Present() {
		return false
	}
	r, err := jsontext.NewReader(q.Doc, maxAnswerDepth)
	if err != nil || r.Peek() != jsontext.Object {
		return false
	}
	greedy, plain := false, true
	_, err = r.Object(func(name jsontext.Name) error {
		v, err := r.Skip()
		if name.Is("temperature") {
			f, ferr := strconv.ParseFloat(string(v.Text(q.Doc)), 64)
			greedy = ferr == nil && f == 0
		}
		plain = plain && (!keepsState(name) || idle(v, q.Doc))
		return err
	})
	return err == nil && greedy && plain
}

// keepsState tells whether a member makes what comes next depend on more than the text so far.
func keepsState(name jsontext.Name) bool {
	for _, n := range []string{
		"tools", "functions", "tool_choice", "logprobs", "top_logprobs", "prompt_logprobs", "response_format",
		"structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "echo", "use_beam_search",
		"best_of", "suffix", "prompt_embeds", "return_token_ids", "continue_final_message", "min_tokens", "vllm_xargs",
		"repetition_penalty", "presence_penalty", "frequency_penalty", "thinking_token_budget", "reasoning_effort",
	} {
		if name.Is(n) {
			return true
		}
	}
	return false
}

// idle tells whether a member's value is as good as none.
func idle(v jsontext.Value, doc []byte) bool {
	switch string(v.Text(doc)) {
	case "null", "false", "0", "0.0", "[]", `"none"`, "{}":
		return true
	}
	return false
}

// Continue is the request that goes on behind text, of which the worker has made used tokens: a chat whose last message
// is the assistant's beginning, or a longer prompt. ok is false when no token is left to make, or text is no UTF-8.
func (q *Request) Continue(text []byte, used int) (doc []byte, ok bool) {
	limit := q.MaxTokens
	if limit == 0 && q.Shape == ShapeCompletion {
		limit = defaultCompletionTokens
	}
	if limit > 0 && limit <= used || !utf8.Valid(text) {
		return nil, false
	}
	var edits []jsontext.Edit
	var more []byte
	if q.Shape == ShapeChat {
		end := q.Template.Messages.End - 1
		message := append([]byte(`,{"role":"assistant","content":`), jsontext.Quote(string(text))...)
		edits = append(edits, jsontext.Edit{Start: end, End: end, Text: append(message, '}')})
		more = append(more, `,"add_generation_prompt":false,"continue_final_message":true`...)
	} else {
		whole := jsontext.StringOf(q.Doc, q.Prompt.Value) + string(text)
		edits = append(edits, jsontext.Replace(q.Prompt.Value, jsontext.Quote(whole)))
	}
	if limit > 0 {
		for _, name := range []string{"max_completion_tokens", "max_tokens"} {
			if HasMember(q.Doc, name) || q.Shape == ShapeCompletion && name == "max_tokens" {
				more = append(more, `,"`+name+`":`...)
				more = strconv.AppendInt(more, int64(limit-used), 10)
			}
		}
	}
	last := bytes.LastIndexByte(q.Doc, '}')
	edits = append(edits, jsontext.Edit{Start: last, End: last, Text: more})
	return jsontext.Join(jsontext.Splice(q.Doc, edits)), true
}

// Delta is what an event adds to the text of choice 0. plain is false when the event has something that text alone does
// not carry on: another choice, reasoning, a tool call, a refusal, an end.
func Delta(data []byte) (text []byte, plain bool) {
	r, err := jsontext.NewReader(data, maxAnswerDepth)
	if err != nil || r.Peek() != jsontext.Object {
		return nil, false
	}
	plain = true
	take := func(name jsontext.Name) error {
		v, err := r.Skip()
		switch {
		case name.Is("content") || name.Is("text"):
			if v.Kind == jsontext.String {
				text = append(text, jsontext.StringOf(data, v)...)
			}
		case name.Is("index"):
			plain = plain && string(v.Text(data)) == "0"
		case name.Is("role"), name.Is("token_ids"), name.Is("prompt_token_ids"), name.Is("stop_reason"):
		default:
			plain = plain && !v.Present()
		}
		return err
	}
	_, err = r.Object(func(name jsontext.Name) error {
		if !name.Is("choices") || r.Peek() != jsontext.Array {
			_, err := r.Skip()
			return err
		}
		_, err := r.Array(func(int) error {
			if r.Peek() != jsontext.Object {
				plain = false
				_, err := r.Skip()
				return err
			}
			_, err := r.Object(func(name jsontext.Name) error {
				if name.Is("delta") && r.Peek() == jsontext.Object {
					_, err := r.Object(take)
					return err
				}
				return take(name)
			})
			return err
		})
		return err
	})
	return text, plain && err == nil
}

// MovedUsage is a usage object of a continuation as that of the whole: tokens that the first worker made are no prompt.
func MovedUsage(u Usage, made int64) []byte {
	prompt, output := max(0, u.PromptTokens-made), u.OutputTokens+made
	b := append([]byte(`{"prompt_tokens":`), strconv.FormatInt(prompt, 10)...)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, prompt+output, 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, output, 10)
	return append(b, '}')
}
