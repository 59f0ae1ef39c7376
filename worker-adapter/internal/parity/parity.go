// Package parity compares the prompts that kvmesh makes with those that a worker makes of the same requests.
//
// A worker that serves /v1/chat/completions/render tells the ids of a prompt without computing anything (vLLM 0.18 and
// later; since 0.29 with --enable-scale-out only). Any other tells them with an answer of one token (return_token_ids),
// and since 0.32 the text too (return_prompt_text), which is asked for as well where prompts differ. Each
// feature of chat requests is compared by itself, because templates differ in what they get right. Results never hold
// text: where two prompts part and whether rendering or tokenising is the cause is enough to look further.
package parity

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// callTimeout bounds one comparison: a busy worker may queue it for a while.
const callTimeout = 30 * time.Second

// Worker sends a JSON body to the worker under test and returns that of a 200 answer.
type Worker interface {
	Post(ctx context.Context, path string, body []byte) ([]byte, error)
}

// Prober compares one worker.
type Prober struct {
	Worker    Worker
	Template  templatev1.TemplateServiceClient
	Tokenizer tokenizerv1.TokenizerServiceClient
	Clock     func() time.Time
}

// Findings are the results.
type Findings struct {
	Results []*workerv1.ParityResult
	// Contexts shows per feature that differs what stands on both sides of the first difference. It is for the eyes of
	// who asked, never for a card: ids and text stay off the bus.
	Contexts map[string]string
	// CachedTokens is true when the worker reports usage.prompt_tokens_details.
	CachedTokens bool
	// TokenIDs is true when chat prompts are proven equal and the worker used exactly the ids that it was sent.
	TokenIDs bool
}

// Probe runs all comparisons for a model of a worker of this vLLM version. Faults become results.
func (p Prober) Probe(ctx context.Context, model, version string) Findings {
	var f Findings
	var proven []uint32
	differs, renders := false, true
	for _, c := range chatCases() {
		req := request{model: model, version: version, chatCase: c}
		var theirs []uint32
		if renders {
			theirs, renders = p.rendered(ctx, req)
		}
		r, ids := p.chat(ctx, &f, req, theirs)
		f.Results = append(f.Results, r)
		differs = differs || r.State == workerv1.ParityState_PARITY_STATE_DIFFERS
		if c.feature == featureChat && r.State == workerv1.ParityState_PARITY_STATE_PROVEN {
			proven = ids
		}
	}
	f.Results = append(f.Results, p.completion(ctx, &f, model))
	if proven != nil && !differs && takesIDs(version) {
		f.TokenIDs = p.sendsIDs(ctx, &f, model, proven)
	}
	return f
}

// request is one chat comparison.
type request struct {
	chatCase
	model, version string
}

// answer is what is read of the worker's reply.
type answer struct {
	IDs     []uint32 `json:"prompt_token_ids"`
	Text    *string  `json:"prompt_text"`
	Choices []struct {
		IDs []uint32 `json:"prompt_token_ids"`
	} `json:"choices"`
	Usage struct {
		Details json.RawMessage `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// ask sends a request to the worker.
func (p Prober) ask(ctx context.Context, f *Findings, path string, body map[string]any) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body["max_tokens"], body["temperature"], body["return_token_ids"] = 1, 0, true
	raw, err := encoded(body)
	if err != nil {
		return answer{}, fmt.Errorf("build comparison: %w", err)
	}
	reply, err := p.Worker.Post(ctx, path, raw)
	if err != nil {
		return answer{}, err
	}
	var a answer
	if err := json.Unmarshal(reply, &a); err != nil {
		return answer{}, fmt.Errorf("read %s: not the shape of a completion", path)
	}
	f.CachedTokens = f.CachedTokens || len(a.Usage.Details) > 0 && string(a.Usage.Details) != "null"
	return a, nil
}

// encoded is a body as JSON.
func encoded(body map[string]any) ([]byte, error) {
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false)
	err := enc.Encode(body)
	return raw.Bytes(), err
}

// body is the request as the worker gets it.
func (r request) body() map[string]any {
	b := map[string]any{"model": r.model, "messages": json.RawMessage(r.messages), "return_prompt_text": true}
	if r.tools != "" {
		b["tools"] = json.RawMessage(r.tools)
	}
	if r.noPrompt {
		b["add_generation_prompt"] = false
	}
	return b
}

// rendered asks the worker's render endpoint for a prompt's ids; ok is false where there is none.
func (p Prober) rendered(ctx context.Context, r request) (ids []uint32, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	raw, err := encoded(r.body())
	if err != nil {
		return nil, false
	}
	reply, err := p.Worker.Post(ctx, "/v1/chat/completions/render", raw)
	var a struct {
		IDs []uint32 `json:"token_ids"`
	}
	if err != nil || json.Unmarshal(reply, &a) != nil {
		return nil, false
	}
	return a.IDs, len(a.IDs) > 0
}

// chat compares one chat request and returns the ids on which both agree. told are the ids of the worker's render
// endpoint, nil where it has none: when they are ours, no answer is asked for.
func (p Prober) chat(ctx context.Context, f *Findings, r request, told []uint32) (*workerv1.ParityResult, []uint32) {
	rendered, ids, why := p.ours(ctx, r)
	if why != "" {
		return p.unknown(r.feature, why), nil
	}
	if told != nil && slices.Equal(told, ids) {
		return p.compared(r.feature, told, ids, ""), ids
	}
	a, err := p.ask(ctx, f, "/v1/chat/completions", r.body())
	if err != nil {
		return p.unknown(r.feature, "the worker did not answer: "+err.Error()), nil
	}
	if len(a.IDs) == 0 {
		return p.unknown(r.feature, "the worker does not tell the ids of its prompts"), nil
	}
	texts, shown := "", ""
	if a.Text != nil {
		if texts = where(rendered, []byte(*a.Text)); texts != "" {
			shown = around([]byte(*a.Text), rendered, textContext, quote)
		}
	}
	if shown == "" {
		shown = around(a.IDs, ids, idContext, listed)
	}
	f.show(r.feature, shown)
	return p.compared(r.feature, a.IDs, ids, texts), ids
}

// ours is kvmesh's prompt, or why there is none.
func (p Prober) ours(ctx context.Context, r request) (text []byte, ids []uint32, why string) {
	req := &templatev1.RenderRequest{
		Model: r.model, MessagesJson: []byte(r.messages), ToolsJson: []byte(r.tools), WorkerVersion: r.version,
	}
	if r.noPrompt {
		off := false
		req.AddGenerationPrompt = &off
	}
	rendered, err := p.Template.Render(ctx, req)
	if err != nil {
		return nil, nil, "kvmesh cannot render it: " + fault.Name(fault.ReasonOf(err))
	}
	ids, err = p.encode(ctx, &tokenizerv1.EncodeRequest{
		Model: r.model, Text: rendered.GetText(), Cuts: rendered.GetCuts(),
	})
	if err != nil {
		return nil, nil, "kvmesh cannot tokenise it: " + fault.Name(fault.ReasonOf(err))
	}
	return rendered.GetText(), ids, ""
}

// Sizes of a context: bytes and ids before and after the first difference.
const (
	textContext = 24
	idContext   = 4
)

// show keeps the context of a difference.
func (f *Findings) show(feature, context string) {
	if context == "" {
		return
	}
	if f.Contexts == nil {
		f.Contexts = map[string]string{}
	}
	f.Contexts[feature] = context
}

// around shows what two prompts share just before they part and how each goes on; empty when they are equal.
func around[T comparable](theirs, ours []T, n int, print func([]T) string) string {
	i := 0
	for i < min(len(theirs), len(ours)) && theirs[i] == ours[i] {
		i++
	}
	if i == len(theirs) && i == len(ours) {
		return ""
	}
	return fmt.Sprintf("after %s the worker has %s, kvmesh has %s", print(theirs[max(0, i-n):i]),
		print(theirs[i:min(len(theirs), i+n)]), print(ours[i:min(len(ours), i+n)]))
}

func quote(text []byte) string {
	if len(text) == 0 {
		return "nothing"
	}
	return strconv.Quote(string(text))
}

func listed(ids []uint32) string {
	if len(ids) == 0 {
		return "nothing"
	}
	return strings.Trim(fmt.Sprint(ids), "[]")
}

// completion compares a text prompt.
func (p Prober) completion(ctx context.Context, f *Findings, model string) *workerv1.ParityResult {
	a, err := p.ask(ctx, f, "/v1/completions", map[string]any{"model": model, "prompt": completionText})
	if err != nil {
		return p.unknown(featureCompletions, "the worker did not answer: "+err.Error())
	}
	theirs := a.IDs
	if len(theirs) == 0 && len(a.Choices) > 0 {
		theirs = a.Choices[0].IDs
	}
	if len(theirs) == 0 {
		return p.unknown(featureCompletions, "the worker does not tell the ids of its prompts")
	}
	ids, err := p.encode(ctx, &tokenizerv1.EncodeRequest{
		Model: model, Text: []byte(completionText), AddSpecialTokens: true,
	})
	if err != nil {
		return p.unknown(featureCompletions, "kvmesh cannot tokenise it: "+fault.Name(fault.ReasonOf(err)))
	}
	f.show(featureCompletions, around(theirs, ids, idContext, listed))
	return p.compared(featureCompletions, theirs, ids, "")
}

// encode tokenises a prompt.
func (p Prober) encode(ctx context.Context, want *tokenizerv1.EncodeRequest) ([]uint32, error) {
	want.WantTokenIds = true
	r, err := p.Tokenizer.Encode(ctx, want)
	return r.GetTokenIds(), err
}

// sendsIDs sends a proven prompt's ids with other messages: when the worker reports those ids as its prompt, it took
// them and rendered nothing.
func (p Prober) sendsIDs(ctx context.Context, f *Findings, model string, ids []uint32) bool {
	a, err := p.ask(ctx, f, "/v1/chat/completions", map[string]any{
		"model":              model,
		"messages":           json.RawMessage(`[{"role":"user","content":"other"}]`),
		"kv_transfer_params": map[string]any{"prompt_token_ids": ids},
	})
	return err == nil && slices.Equal(a.IDs, ids)
}

// unknown is a comparison that could not be made.
func (p Prober) unknown(feature, why string) *workerv1.ParityResult {
	return &workerv1.ParityResult{Feature: feature, Detail: why, Tested: timestamppb.New(p.Clock())}
}

// compared is the outcome of a comparison. texts says where the texts part, empty when they are equal or not known.
func (p Prober) compared(feature string, theirs, ours []uint32, texts string) *workerv1.ParityResult {
	r := &workerv1.ParityResult{Feature: feature, Tested: timestamppb.New(p.Clock())}
	if slices.Equal(theirs, ours) {
		r.State = workerv1.ParityState_PARITY_STATE_PROVEN
		return r
	}
	i := 0
	for i < min(len(theirs), len(ours)) && theirs[i] == ours[i] {
		i++
	}
	r.State = workerv1.ParityState_PARITY_STATE_DIFFERS
	r.Detail = fmt.Sprintf("token %d of %d (kvmesh has %d)", i, len(theirs), len(ours))
	if texts != "" {
		r.Detail += ": rendered text differs at " + texts
	}
	return r
}

// where says at which byte two texts part, empty when they are equal.
func where(ours, theirs []byte) string {
	if slices.Equal(ours, theirs) {
		return ""
	}
	i := 0
	for i < min(len(ours), len(theirs)) && ours[i] == theirs[i] {
		i++
	}
	return fmt.Sprintf("byte %d of %d (kvmesh has %d)", i, len(theirs), len(ours))
}

// takesIDs is true for vLLM 0.27 and later, which read kv_transfer_params.prompt_token_ids of a chat request.
func takesIDs(version string) bool {
	var major, minor int
	if n, err := fmt.Sscanf(version, "%d.%d", &major, &minor); n != 2 || err != nil {
		return false
	}
	return major > 0 || minor >= 27
}
