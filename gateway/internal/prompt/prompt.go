// Package prompt turns a request into what a route depends on: the hashes of the prompt's units and its length. It
// renders and tokenises within a budget; what cannot be done in time, or at all, falls back to a chain over the
// conversation's bytes, and says so.
package prompt

import (
	"context"
	"time"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/deadline"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/gateway/internal/fleet"
	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
)

// Reasons why a prompt is not known exactly. They are metric labels and receipt words.
const (
	ReasonTemplate  = "template"
	ReasonTokenizer = "tokenizer"
	ReasonMedia     = "media"
	ReasonSlow      = "slow"
	ReasonOperation = "operation"
	ReasonTruncated = "truncated"
)

// Prompt is what is known of one prompt.
type Prompt struct {
	// Hashes is one per full unit.
	Hashes []uint64
	// UnitTokens is the size of a unit; 0 means 16.
	UnitTokens uint32
	// Tokens is the prompt's length; an estimate for FALLBACK.
	Tokens uint32
	// Certainty is EXACT, DEGRADED where only the prompt's beginning is exact, or FALLBACK.
	Certainty schedulerv1.Certainty
	// Reason is why it is not EXACT.
	Reason string
	// IDs is the token ids, only when they were asked for.
	IDs []uint32
}

// Config limits preparing.
type Config struct {
	// Budget is the longest time that rendering and tokenising may add to a request.
	Budget time.Duration
	// WantIDs asks for token ids, to send them to workers that are proven to take them.
	WantIDs bool
}

// Preparer asks the template and tokenizer services. Its methods may be used concurrently.
type Preparer struct {
	cfg       Config
	template  templatev1.TemplateServiceClient
	tokenizer tokenizerv1.TokenizerServiceClient
	skipped   func(stage string)
	resting   *rests
}

// New makes a preparer. skipped is told each time a stage was given up.
func New(cfg Config, t templatev1.TemplateServiceClient, k tokenizerv1.TokenizerServiceClient,
	skipped func(stage string),
) *Preparer {
	return &Preparer{cfg: cfg, template: t, tokenizer: k, skipped: skipped, resting: newRests()}
}

// Prepare makes the prompt of a request. Its only fault is the context's end.
func (p *Preparer) Prepare(ctx context.Context, q *openai.Request, m fleet.Model) (*Prompt, error) {
	exact, reason := p.exact(ctx, q, m)
	if err := ctx.Err(); err != nil {
		return nil, fault.From(err)
	}
	if exact != nil {
		return exact, nil
	}
	if reason != ReasonOperation {
		p.skipped(reason)
	}
	return fallback(q, m, reason), nil
}

// exact prepares as the worker does, or says why that is not possible.
func (p *Preparer) exact(ctx context.Context, q *openai.Request, m fleet.Model) (*Prompt, string) {
	switch q.Shape {
	case openai.ShapeCompletion:
		if q.Prompt.IDs {
			return fromIDs(q, m, p.cfg.WantIDs)
		}
		if q.Prompt.Value.Kind != jsontext.String {
			return nil, ReasonOperation
		}
	case openai.ShapeChat, openai.ShapeMessages, openai.ShapeResponses:
	default:
		return nil, ReasonOperation
	}
	if p.resting.now(m.Base) {
		return nil, ReasonSlow
	}
	begun := time.Now()
	bounded := deadline.With(ctx, p.cfg.Budget)
	defer bounded.End()
	out, reason := p.ask(bounded, q, m)
	late := bounded.Err() != nil
	if out == nil && late {
		reason = ReasonSlow
	}
	if late && (ctx.Err() != nil || time.Since(begun) < p.cfg.Budget) {
		return out, reason // the request's own end came first: neither late nor in time
	}
	p.resting.note(m.Base, late, begun)
	return out, reason
}

// ask renders and tokenises.
func (p *Preparer) ask(ctx context.Context, q *openai.Request, m fleet.Model) (*Prompt, string) {
	want := &tokenizerv1.EncodeRequest{
		Model: m.Base, Text: q.PromptText(), AddSpecialTokens: q.AddSpecialTokens, WantTokenIds: p.cfg.WantIDs,
		Salting: &tokenizerv1.Salting{LoraName: m.LoRA, CacheSalt: salt(q)},
	}
	var rendered *templatev1.RenderResponse
	if q.Shape != openai.ShapeCompletion {
		r, ok := renderRequest(q, m)
		if !ok {
			return nil, ReasonOperation
		}
		var err error
		if rendered, err = p.template.Render(ctx, r); err != nil {
			return nil, ReasonTemplate
		}
		if q.Shape == openai.ShapeResponses && len(rendered.GetCuts()) > 0 {
			return nil, ReasonOperation // Harmony: vLLM makes other messages of a Responses request than of a chat
		}
		// The gateway's own way to send ids is proven for chats alone.
		want.WantTokenIds = want.WantTokenIds && q.Shape == openai.ShapeChat
		want.Text, want.Cuts = rendered.GetText(), rendered.GetCuts()
		// Harmony's prompts are made of tokens, not of text.
		want.AddSpecialTokens = want.AddSpecialTokens && len(want.Cuts) == 0
	}
	media := len(rendered.GetMediaKeys()) > 0
	if media {
		want.Text, want.WantTokenIds = want.Text[:min(int(rendered.GetExactBytes()), len(want.Text))], false
	}
	resp, err := p.tokenizer.Encode(ctx, want)
	if err != nil {
		return nil, ReasonTokenizer
	}
	if q.Truncates(int(resp.GetTokenCount())) || media && q.Keep >= 0 {
		return nil, ReasonTruncated
	}
	if media {
		return withMedia(q, m, rendered, resp), ""
	}
	return &Prompt{
		Hashes: resp.GetUnitHashes(), UnitTokens: resp.GetUnitTokens(), Tokens: resp.GetTokenCount(),
		Certainty: schedulerv1.Certainty_CERTAINTY_EXACT, IDs: resp.GetTokenIds(),
	}, ""
}

// salt is the request's cache_salt; one that the tokenizer service would refuse is the worker's to judge.
func salt(q *openai.Request) string {
	if len(q.CacheSalt) > maxSaltBytes {
		return ""
	}
	return q.CacheSalt
}

// maxSaltBytes is the limit of tokenizerv1.Salting.
const maxSaltBytes = 4096

// renderRequest is the chat to render; ok is false where only the worker knows what it makes of the request.
func renderRequest(q *openai.Request, m fleet.Model) (r *templatev1.RenderRequest, ok bool) {
	if q.Shape == openai.ShapeMessages || q.Shape == openai.ShapeResponses {
		convert := q.MessagesConversation
		if q.Shape == openai.ShapeResponses {
			convert = q.ResponsesConversation
		}
		c, ok := convert()
		return &templatev1.RenderRequest{
			Model: m.Base, MessagesJson: c.Messages, ToolsJson: c.Tools, ToolChoiceJson: c.ToolChoice,
			ChatTemplateKwargsJson: c.Kwargs, ReasoningEffort: c.ReasoningEffort,
		}, ok
	}
	t := &q.Template
	return &templatev1.RenderRequest{
		Model:                  m.Base,
		MessagesJson:           q.Text(t.Messages),
		ToolsJson:              q.Text(t.Tools),
		ToolChoiceJson:         q.Text(t.ToolChoice),
		ChatTemplateKwargsJson: q.Text(t.Kwargs),
		DocumentsJson:          q.Text(t.Documents),
		ChatTemplate:           t.ChatTemplate,
		AddGenerationPrompt:    t.AddGenerationPrompt,
		ContinueFinalMessage:   t.ContinueFinalMessage,
		ReasoningEffort:        t.ReasoningEffort,
	}, true
}

// fromIDs hashes a prompt that is token ids already.
func fromIDs(q *openai.Request, m fleet.Model, keep bool) (*Prompt, string) {
	ids, ok := openai.TokenIDs(q.Doc, q.Prompt.Value)
	if !ok {
		return nil, ReasonTokenizer
	}
	if q.Truncates(len(ids)) {
		return nil, ReasonTruncated
	}
	root := kvblock.Namespace{Model: m.Base, LoRA: m.LoRA}.Root()
	out := &Prompt{
		Hashes: kvblock.AppendUnits(nil, root, ids, q.CacheSalt), Tokens: uint32(len(ids)),
		Certainty: schedulerv1.Certainty_CERTAINTY_EXACT,
	}
	if keep {
		out.IDs = ids
	}
	return out, ""
}
