package api

import (
	"context"
	"fmt"
	"strings"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/answer"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// plan is everything that one sequence will say, known before its first step.
type plan struct {
	ids     []uint32 // with the end-of-sequence token, if it ends by itself
	text    string   // all visible and markup text of ids
	ends    []int    // ends[i] is where the text that exists after token i ends
	regions []region // of text
	flow    []region // of the text before it was cut: a stream shows the beginning of a call that never ends
	finish  string   // OpenAI's finish_reason but for tool calls
	stop    string   // stop_reason as JSON
	thought int      // tokens of reasoning
	broken  *request.Error
}

// script is what a sequence is asked to say. Two equal scripts make equal plans.
type script struct {
	prompt   []uint32
	sampling *request.Sampling
	limit    int                // tokens that may be said, the end-of-sequence token included
	limited  request.Constraint // what the text must look like
	index    int                // number of the choice: each of n says something else
	model    string             // adapters answer differently from their base model
	thinking bool               // the text begins inside a thought
	tools    []request.Tool
	choice   request.Choice
	asked    string // the last user message, by which "auto" decides whether to call a tool
}

// plan makes up a sequence's whole output. A constraint that cannot be compiled comes back in plan.broken.
func (h *Handler) plan(ctx context.Context, s *script) (*plan, error) {
	seed := answer.Seed(s.prompt, s.sampling.Seed, uint64(s.index), uint64(len(s.model)))
	if len(s.sampling.AllowedIDs) > 0 {
		return h.allowed(s, &seed), nil
	}
	p := &plan{finish: "stop", stop: "null"}
	text, natural, err := h.compose(s, &seed)
	if err != nil {
		return &plan{broken: request.Bad("%s", err.Error())}, nil
	}
	ids, err := h.deps.Tokenizer.Encode(ctx, []byte(text), false)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	whole := len(ids)
	ids = h.sentence(ids, natural)
	for s.sampling.IgnoreEOS && len(ids) > 0 && len(ids) < s.limit { // a real model would go on
		ids = append(ids, ids[:min(len(ids), s.limit-len(ids))]...)
	}
	p.ids, p.text = ids, text
	if len(ids) != whole {
		p.text = h.textOf(ids)
	}
	p.ends = h.detok.ends(p.text, ids)
	if len(p.ids) >= s.limit || s.sampling.IgnoreEOS {
		p.finish = "length"
	} else {
		p.ids = append(p.ids[:len(p.ids):len(p.ids)], h.set.EOSTokenID)
		p.ends = append(p.ends, len(p.text))
	}
	p.flow = split(p.text, s.thinking, s.choice.Mode != request.ChooseNone)
	h.stopAt(p, s)
	p.cut(s.limit)
	p.regions = split(p.text, s.thinking, s.choice.Mode != request.ChooseNone)
	p.countThought()
	return p, nil
}

// sentence cuts prose behind the first sentence that has at least natural tokens; 0 leaves it whole.
func (h *Handler) sentence(ids []uint32, natural int) []uint32 {
	for i := natural - 1; natural > 0 && i < len(ids); i++ {
		if strings.HasSuffix(h.detok.piece(ids[i]), ".") {
			return ids[:i+1]
		}
	}
	return ids
}

// textOf puts together the text of prose, whose words split no character.
func (h *Handler) textOf(ids []uint32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(h.detok.piece(id))
	}
	return b.String()
}

// compose makes up the text. natural is after how many tokens prose ends by itself, 0 for text that ends where it ends.
func (h *Handler) compose(s *script, r *answer.Rand) (text string, natural int, err error) {
	if s.thinking {
		text = r.Thought() + thoughtEnd + "\n\n"
	}
	bound, err := constrained(s, r)
	if err != nil || bound != "" {
		return text + bound, 0, err
	}
	if call := s.call(r); call != "" {
		return text + call, 0, nil
	}
	natural = max(h.set.AnswerMin+r.Below(h.set.AnswerMax-h.set.AnswerMin+1), s.sampling.MinTokens)
	switch {
	case s.sampling.IgnoreEOS:
		return text + r.Words(s.limit), 0, nil
	case s.thinking:
		return text + r.Words(min(natural, s.limit)), 0, nil
	}
	return r.Words(min(natural, s.limit)), natural, nil
}

// constrained is a text that obeys the constraint, "" if there is none.
func constrained(s *script, r *answer.Rand) (string, error) {
	switch c := &s.limited; {
	case c.Choices != nil:
		return c.Choices[r.Below(len(c.Choices))], nil
	case c.Regex != "":
		text, err := r.FromRegex(c.Regex)
		if err != nil {
			return "", fmt.Errorf("Grammar error: %w", err) //nolint:staticcheck // vLLM's own words
		}
		return text, nil
	case c.Schema != nil:
		return r.FromSchema(c.Schema)
	}
	return "", nil
}

// call is the text of a tool call, "" if none is made. With tool_choice auto the model calls the first tool one of
// whose name's longer words stands in the last user message, so that a test can have it either way.
func (s *script) call(r *answer.Rand) string {
	var tool *request.Tool
	for i := range s.tools {
		t := &s.tools[i]
		switch s.choice.Mode {
		case request.ChooseNone:
			return ""
		case request.ChooseNamed:
			if t.Name != s.choice.Name {
				continue
			}
		case request.ChooseAuto:
			if !mentions(s.asked, t.Name) {
				continue
			}
		case request.ChooseRequired:
			if i < len(s.tools)-1 && !mentions(s.asked, t.Name) {
				continue
			}
		}
		tool = t
		break
	}
	if tool == nil {
		return ""
	}
	args, err := r.FromSchema(tool.Parameters)
	if err != nil {
		args = "{}"
	}
	return toolOpen + `{"name": "` + tool.Name + `", "arguments": ` + args + "}" + toolClose
}

// mentions tells whether one of the longer words of a name stands in the text.
func mentions(text, name string) bool {
	const shortest = 4
	for word := range strings.FieldsFuncSeq(name, func(c rune) bool { return c == '_' || c == '-' || c == '.' }) {
		if len(word) >= shortest && strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
			return true
		}
	}
	return false
}

// allowed answers with nothing but allowed_token_ids.
func (h *Handler) allowed(s *script, r *answer.Rand) *plan {
	p := &plan{stop: "null", finish: "length"}
	for len(p.ids) < s.limit {
		id := s.sampling.AllowedIDs[r.Below(len(s.sampling.AllowedIDs))]
		p.ids = append(p.ids, id)
		if id == h.set.EOSTokenID && !s.sampling.IgnoreEOS {
			p.finish = "stop"
			p.ends = append(p.ends, len(p.text))
			break
		}
		p.text += h.detok.piece(id)
		p.ends = append(p.ends, len(p.text))
	}
	h.stopAt(p, s)
	p.regions = split(p.text, s.thinking, false)
	p.flow = p.regions
	p.countThought()
	return p
}

// countThought counts the tokens of the leading thought.
func (p *plan) countThought() {
	if len(p.flow) == 0 || p.flow[0].kind != reasoning {
		return
	}
	for _, end := range p.ends {
		if end > p.flow[0].to {
			break
		}
		p.thought++
	}
}

// cut ends the plan after so many tokens.
func (p *plan) cut(limit int) {
	if len(p.ids) <= limit {
		return
	}
	p.ids, p.ends = p.ids[:limit], p.ends[:limit]
	p.text = p.text[:p.ends[limit-1]]
	p.finish, p.stop = "length", "null"
}
