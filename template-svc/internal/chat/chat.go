// Package chat makes of an OpenAI chat request the exact prompt that a vLLM worker makes of it.
//
// A request passes four steps, each in a file of its own. Messages and tools are brought into the form that vLLM's
// request model and parser give them (messages.go, parts.go, toolcalls.go, tools.go, developer.go). Keyword arguments
// are merged and filtered (kwargs.go). One of the model's templates is chosen (model.go) and rendered by package jinja.
// A continued final message is cut (final.go). The rules are those of vLLM 0.32 with transformers 5.19; Rules says
// where older workers differ.
//
// What a worker refuses with 400 is an error here too, where it is cheap to see, and rendered otherwise: the worker
// gets the client's own request and decides; a wrong prompt here can only cost a cache hit.
package chat

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Request is the part of a chat request that decides the prompt. JSON members are the client's bytes; empty means
// that the member is absent.
type Request struct {
	MessagesJSON           []byte
	ToolsJSON              []byte
	ToolChoiceJSON         []byte
	ChatTemplateKwargsJSON []byte
	DocumentsJSON          []byte
	// ChatTemplate is the request's own template or the name of one of the model's.
	ChatTemplate *string
	// AddGenerationPrompt is true when absent, as in vLLM.
	AddGenerationPrompt *bool
	// ContinueFinalMessage is false when absent.
	ContinueFinalMessage *bool
	ReasoningEffort      *string
	// Rules are those of the worker that will get the request.
	Rules Rules
}

// Rules are differences between versions of vLLM.
type Rules struct {
	// Old: the content format is detected without looking through macros, and tool-call arguments that are JSON but
	// no object are kept (before 0.28; vllm-project/vllm#53824 and #48922).
	Old bool
	// OldHarmony: gpt-oss prompts are written by openai-harmony with other headers of tool messages (before 0.31).
	OldHarmony bool
}

// RulesFor gives the rules of a worker's version, such as "0.27.1"; an empty or odd version gets the newest rules.
func RulesFor(version string) Rules {
	major, rest, found := strings.Cut(version, ".")
	if !found {
		return Rules{}
	}
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	before := func(release int) bool { return err == nil && major == "0" && n < release }
	return Rules{Old: before(28), OldHarmony: before(31)}
}

// Result is a prompt and how it was made.
type Result struct {
	// Text is the prompt.
	Text []byte
	// TemplateName names the template used.
	TemplateName string
	// Format is jinja.FormatString or jinja.FormatOpenAI.
	Format string
	// TimeDependent is true when the template reads the clock.
	TimeDependent bool
	// Cuts are offsets into Text at which the worker tokenises anew; only formats that are no templates have any.
	Cuts []uint32
	// Media says how far the prompt is exact when it holds image, audio or video parts.
	Media Media
}

// Refusal is a request that the worker refuses with 400 too.
type Refusal struct {
	// Param is the request member at fault, such as "messages".
	Param string
	// Message says why, without any text of the conversation.
	Message string
}

// Error gives the reason.
func (r *Refusal) Error() string {
	if r.Param == "" {
		return r.Message
	}
	return r.Param + ": " + r.Message
}

// Unsupported is a request whose prompt is not known exactly.
type Unsupported struct {
	// Why gives the reason, without any text of the conversation.
	Why string
}

// Error gives the reason.
func (u *Unsupported) Error() string { return u.Why }

// refuse makes a Refusal.
func refuse(param, format string, args ...any) error {
	return &Refusal{Param: param, Message: fmt.Sprintf(format, args...)}
}

// parse reads one JSON member; absent and null both give None.
func parse(param string, raw []byte) (value.Value, error) {
	if len(raw) == 0 {
		return value.None, nil
	}
	v, err := jinja.FromJSON(raw)
	if err != nil {
		return value.None, refuse(param, "is not valid JSON")
	}
	return v, nil
}

// dictOf builds a dict of alternating keys and values.
func dictOf(pairs ...pair) value.Value {
	d := value.NewDict(len(pairs))
	for _, p := range pairs {
		d.SetStr(p.key, p.val)
	}
	return value.OfDict(d)
}

// pair is one member of dictOf.
type pair struct {
	key string
	val value.Value
}

// present gives a dict's value if it is there and not null.
func present(v value.Value, key string) (value.Value, bool) {
	got, ok := value.Member(v, key)
	return got, ok && !got.IsNone()
}
