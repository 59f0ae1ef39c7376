package harmony

import (
	"context"
	"errors"
	"time"

	"github.com/kvmesh/kvmesh/template-svc/internal/chat"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// TemplateName is what a Harmony prompt names as its template.
const TemplateName = "harmony"

// Model renders the chat requests of a gpt-oss model. It is immutable and safe for concurrent use.
type Model struct {
	// Now is the workers' clock in their time zone.
	Now func() time.Time
	// ExcludeToolsWhenNone leaves tools out with tool_choice none (--exclude-tools-when-tool-choice-none).
	ExcludeToolsWhenNone bool
}

// Names lists the one format.
func (*Model) Names() []string { return []string{TemplateName} }

// DefaultFormat is empty: Harmony has no content format.
func (*Model) DefaultFormat() string { return "" }

// Render gives the prompt of a request. Errors are *chat.Refusal and *chat.Unsupported. Templates, their kwargs and
// documents play no part.
func (m *Model) Render(_ context.Context, req *chat.Request) (chat.Result, error) {
	if req.Rules.OldHarmony {
		return chat.Result{}, &chat.Unsupported{Why: "vLLM before 0.31 writes Harmony with other headers"}
	}
	r := Request{Date: m.Now(), Tools: value.None}
	if req.ReasoningEffort != nil {
		r.Effort = *req.ReasoningEffort
	}
	var choice value.Value
	for _, in := range []struct {
		param string
		raw   []byte
		into  *value.Value
	}{
		{"messages", req.MessagesJSON, &r.Messages}, {"tools", req.ToolsJSON, &r.Tools}, {"tool_choice", req.ToolChoiceJSON, &choice},
	} {
		*in.into = value.None
		if len(in.raw) == 0 {
			continue
		}
		v, err := jinja.FromJSON(in.raw)
		if err != nil {
			return chat.Result{}, &chat.Refusal{Param: in.param, Message: "is not valid JSON"}
		}
		*in.into = v
	}
	if m.ExcludeToolsWhenNone && choice.IsStr() && choice.AsStr() == "none" {
		r.Tools = value.None
	}
	p, err := Render(r)
	switch {
	case errors.Is(err, ErrCannot):
		return chat.Result{}, &chat.Unsupported{Why: err.Error()}
	case err != nil:
		return chat.Result{}, &chat.Refusal{Param: "messages", Message: err.Error()}
	}
	return chat.Result{Text: p.Text, Cuts: p.Cuts, TemplateName: TemplateName, TimeDependent: true}, nil
}
