package request

import (
	"strconv"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
)

// Prompt is one prompt of a completion: text, or token ids if IsIDs is set.
type Prompt struct {
	Text  string
	IDs   []uint32
	IsIDs bool
}

// Completion is a body of POST /v1/completions.
type Completion struct {
	Common
	Prompts []Prompt
}

// ParseCompletion reads and checks a body.
func ParseCompletion(doc *pyjson.Doc) (*Completion, *Error) {
	root := &doc.Root
	if err := before(root); err != nil {
		return nil, err
	}
	p := root.Get("prompt")
	if p.IsNull() || p.Kind == pyjson.String && p.Str == "" {
		e := badParam("prompt", nil, "Either prompt or prompt_embeds must be provided and non-empty.")
		return nil, e
	}
	r := &Completion{}
	r.AddSpecial = true
	r.HasPromptSurrogates = doc.LoneSurrogate
	var c checker
	r.Prompts = c.prompts(p)
	c.common(root, &r.Common)
	r.Sampling.Logprobs = int(c.integer(root.Get("logprobs"), "body.logprobs", Unset))
	r.AddSpecial = c.boolean(root.Get("add_special_tokens"), "body.add_special_tokens", true)
	if err := c.err(); err != nil {
		return nil, err
	}
	if s := root.Get("suffix"); s.Kind == pyjson.String {
		e := Bad("suffix is only supported for models with FIM completion rendering")
		e.Param = "suffix"
		return nil, e
	}
	var err *Error
	r.Limit, err = constraint(root)
	return r, err
}

// prompts accepts the union list[int] | list[list[int]] | str | list[str]; when no member fits, the complaints of all
// of them are listed in that order.
func (c *checker) prompts(v *pyjson.Value) []Prompt {
	switch {
	case v.Kind == pyjson.String:
		return []Prompt{{Text: v.Str}}
	case v.Kind == pyjson.List && v.Len() == 0:
		return nil
	}
	if ids, ok := tokenIDs(v); ok {
		return []Prompt{{IDs: ids, IsIDs: true}}
	}
	if out, ok := promptList(v); ok {
		return out
	}
	const loc = "body.prompt"
	if v.Kind != pyjson.List {
		c.list(v, loc)
		c.list(v, loc)
		c.text(v, loc)
		c.list(v, loc)
		return nil
	}
	each := func(check func(item *pyjson.Value, loc string)) {
		for i := range v.Len() {
			item := v.At(i)
			check(&item, loc+"."+strconv.Itoa(i))
		}
	}
	each(c.tokenID)
	each(func(item *pyjson.Value, loc string) { c.list(item, loc) })
	c.text(v, loc)
	each(func(item *pyjson.Value, loc string) { c.text(item, loc) })
	return nil
}

// tokenID checks one element of a list of ids.
func (c *checker) tokenID(v *pyjson.Value, loc string) {
	if n := c.integer(v, loc, 0); n < 0 {
		c.add(complaint{"greater_than_equal", loc, "Input should be greater than or equal to 0", v.Describe(), "'ge': 0"})
	}
}

// tokenIDs converts a list of non-negative integers.
func tokenIDs(v *pyjson.Value) ([]uint32, bool) {
	if !v.AllInts() {
		return nil, false
	}
	ids := make([]uint32, len(v.Ints))
	for i, n := range v.Ints {
		if n < 0 {
			return nil, false
		}
		ids[i] = clip(n)
	}
	return ids, true
}

// promptList reads a list whose elements are all texts or all lists of ids.
func promptList(v *pyjson.Value) ([]Prompt, bool) {
	if v.Kind != pyjson.List {
		return nil, false
	}
	out := make([]Prompt, 0, v.Len())
	for i := range v.Len() {
		item := v.At(i)
		if ids, ok := tokenIDs(&item); ok {
			out = append(out, Prompt{IDs: ids, IsIDs: true})
			continue
		}
		if item.Kind != pyjson.String {
			return nil, false
		}
		out = append(out, Prompt{Text: item.Str})
	}
	for i := range out {
		if out[i].IsIDs != out[0].IsIDs {
			return nil, false
		}
	}
	return out, true
}
