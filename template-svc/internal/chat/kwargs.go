package chat

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// callParameters are the parameters of transformers' apply_chat_template: as kwargs they are accepted but, save for
// the three that it hands on, never reach the template.
var callParameters = [...]string{
	"chat_template", "continue_final_message", "tokenize", "padding", "truncation", "max_length", "return_tensors",
	"return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs",
}

// efforts are the words vLLM 0.32 takes as reasoning_effort.
var efforts = [...]string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// settings is what the kwargs of one request come to.
type settings struct {
	kwargs              *value.Dict
	addGenerationPrompt bool
	continueFinal       bool
	// textBytes is about the length of the prompt.
	textBytes int
}

// frameBytes is what most templates write around messages and tools beyond the length of their JSON.
const frameBytes = 256

// merge applies vLLM's order: server defaults, the request's chat_template_kwargs, the request's own fields. In every
// step null and "auto" do not override.
func (m *Model) merge(req *Request) (settings, error) {
	s := settings{
		kwargs: value.NewDict(2), addGenerationPrompt: true,
		textBytes: len(req.MessagesJSON) + len(req.ToolsJSON) + frameBytes,
	}
	own, err := parse("chat_template_kwargs", req.ChatTemplateKwargsJSON)
	if err != nil {
		return s, err
	}
	if !own.IsNone() && own.Kind() != value.KindDict {
		return s, refuse("chat_template_kwargs", "must be an object")
	}
	if m.opts.DefaultKwargs.Kind() == value.KindDict {
		override(s.kwargs, m.opts.DefaultKwargs.AsDict())
	}
	if !own.IsNone() {
		if err := m.checkReserved(own); err != nil {
			return s, err
		}
		override(s.kwargs, own.AsDict())
	}
	if err := s.requestFields(req, own); err != nil {
		return s, err
	}
	return s, nil
}

// override copies what overrides.
func override(into, from *value.Dict) {
	for _, e := range from.Entries() {
		if overrides(e.Val) {
			into.SetStr(e.Key.AsStr(), e.Val)
		}
	}
}

// overrides is false for null and "auto": to vLLM they are as good as absent.
func overrides(v value.Value) bool { return !v.IsNone() && !(v.IsStr() && v.AsStr() == "auto") }

// checkReserved refuses the names that vLLM's call does not leave to the request.
func (m *Model) checkReserved(own value.Value) error {
	for _, name := range []string{"messages", "conversation", "tokenizer", "model_config"} {
		if v, ok := value.Member(own, name); ok && overrides(v) {
			return refuse("chat_template_kwargs", "must not hold %s", name)
		}
	}
	if v, ok := value.Member(own, "chat_template"); ok && overrides(v) && !m.opts.TrustRequestTemplate {
		return refuse("chat_template_kwargs", "the worker does not trust templates of requests")
	}
	return nil
}

// requestFields lets the request's own fields win.
func (s *settings) requestFields(req *Request, own value.Value) error {
	if req.AddGenerationPrompt != nil {
		s.addGenerationPrompt = *req.AddGenerationPrompt
	}
	s.continueFinal = req.ContinueFinalMessage != nil && *req.ContinueFinalMessage
	if s.continueFinal && s.addGenerationPrompt {
		return refuse("continue_final_message", "needs add_generation_prompt false")
	}
	s.kwargs.SetStr("add_generation_prompt", value.Bool(s.addGenerationPrompt))
	documents, err := parse("documents", req.DocumentsJSON)
	if err != nil {
		return err
	}
	if !documents.IsNone() {
		if err := checkDocuments(documents); err != nil {
			return err
		}
		s.kwargs.SetStr("documents", documents)
	}
	if req.ReasoningEffort == nil {
		return nil
	}
	return s.effort(*req.ReasoningEffort, own)
}

// effort sets reasoning_effort and, unless the request names enable_thinking, that too (vllm-project/vllm#43401).
func (s *settings) effort(effort string, own value.Value) error {
	known := false
	for _, e := range efforts {
		known = known || e == effort
	}
	if !known {
		return refuse("reasoning_effort", "is none of the words that the worker knows")
	}
	s.kwargs.SetStr("reasoning_effort", value.Str(effort))
	if _, named := value.Member(own, "enable_thinking"); !named {
		s.kwargs.SetStr("enable_thinking", value.Bool(effort != "none"))
	}
	return nil
}

// checkDocuments refuses what vLLM's request model refuses: members that are no text.
func checkDocuments(documents value.Value) error {
	if documents.Kind() != value.KindList {
		return refuse("documents", "must be a list")
	}
	for _, d := range documents.Cells() {
		if d.Kind() != value.KindDict {
			return refuse("documents", "must hold objects")
		}
		for _, e := range d.AsDict().Entries() {
			if !e.Val.IsStr() {
				return refuse("documents", "values must be text")
			}
		}
	}
	return nil
}

// variables gives the template's variables: what transformers passes, then special tokens, then the kwargs that the
// template reads without setting them first.
func (m *Model) variables(t *compiled, s settings, c conversationOf) []jinja.Var {
	documents, _ := s.kwargs.GetStr("documents")
	if override, ok := s.kwargs.GetStr("tools"); ok {
		c.tools = override
		if !override.Truth() {
			c.tools = value.List(nil) // transformers makes a list of what it is given
		}
	}
	vars := make([]jinja.Var, 0, 8+len(m.special)+s.kwargs.Len())
	vars = append(vars,
		jinja.Var{Name: "messages", Value: value.List(c.messages)},
		jinja.Var{Name: "tools", Value: c.tools},
		jinja.Var{Name: "documents", Value: documents},
		jinja.Var{Name: "add_generation_prompt", Value: value.Bool(s.addGenerationPrompt)},
	)
	vars = append(vars, m.special...)
	for _, e := range s.kwargs.Entries() {
		name := e.Key.AsStr()
		if t.undeclared[name] && !consumed(name) {
			vars = append(vars, jinja.Var{Name: name, Value: e.Val})
		}
	}
	return vars
}

// consumed reports whether a kwarg goes to the call instead of the template.
func consumed(name string) bool {
	for _, p := range callParameters {
		if p == name {
			return true
		}
	}
	return name == "tools" || name == "documents" || name == "add_generation_prompt"
}
