// Package harmony writes chat requests as vLLM 0.31 and later writes them for gpt-oss models: in OpenAI's Harmony
// format, which is no Jinja template.
//
// A request becomes Harmony messages as vLLM's request handling makes them (conversation.go), and those become text as
// the published implementation writes them (render.go, typescript.go). That implementation makes ids, not text: it
// encodes each piece of plain text alone and without looking for special tokens. Prompt.Cuts carries that over to a
// tokenizer that reads the whole text.
package harmony

import (
	"errors"
	"time"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Request is what decides the prompt. Values are as the client sent them.
type Request struct {
	Messages value.Value
	// Tools is a list or None.
	Tools value.Value
	// Effort is the request's reasoning_effort; empty when it has none.
	Effort string
	// Date is the worker's current date.
	Date time.Time
}

// Prompt is text and where the worker's tokenizer begins anew in it.
type Prompt struct {
	Text []byte
	// Cuts are ascending offsets into Text.
	Cuts []uint32
}

// ErrRequest marks a request that the worker refuses.
var ErrRequest = errors.New("request refused")

// ErrCannot marks a request whose prompt is not known exactly.
var ErrCannot = errors.New("not known exactly")

// Render makes the prompt. Errors wrap ErrRequest or ErrCannot and hold no text of the conversation.
func Render(req Request) (Prompt, error) {
	c, err := converse(req)
	if err != nil {
		return Prompt{}, err
	}
	var w writer
	for _, m := range dropAnalysis(c) {
		w.message(m)
	}
	w.special("<|start|>")
	w.plain("assistant")
	return w.prompt()
}

// message is one Harmony message.
type message struct {
	// author is what follows the start token: a role, or a tool's name.
	author string
	// recipient and kind (the content type) are empty for most.
	channel, recipient, kind string
	// contents are encoded one by one.
	contents  []string
	assistant bool
}

// dropAnalysis leaves out reasoning before the last final answer.
func dropAnalysis(messages []message) []message {
	last := -1
	for i, m := range messages {
		if m.assistant && m.channel == channelFinal {
			last = i
		}
	}
	out := messages[:0]
	for i, m := range messages {
		if i < last && m.channel == channelAnalysis {
			continue
		}
		out = append(out, m)
	}
	return out
}
